// The models that come with the library, each made in its own file.
#pragma once

#include <penstock/towers/model.h>

namespace penstock::towers {

ModelKind cifar10_kind();
ModelKind lenet_kind();
ModelKind resnet18_kind();
ModelKind resnet50_kind();
ModelKind text_match_kind();
ModelKind two_tower_kind();
ModelKind wide_deep_kind();

}  // namespace penstock::towers
