// CIFAR-10's binary files as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {image: u8 [32,32,3], label: i64} from records of 3,073 bytes: the label, then the red, the
/// green and the blue plane. A label above 9 is data_loss. Source of the format:
/// https://www.cs.toronto.edu/~kriz/cifar.html. Throws Error{not_found} that lists what is missing.
SourcePtr make_cifar10_source(const Paths& paths, const FileOptions& options);

}  // namespace penstock
