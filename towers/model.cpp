#include <penstock/towers/model.h>

#include <map>
#include <utility>

#include <penstock/error.h>

#include "towers/models/built_in.h"

namespace penstock::towers {
namespace {

using Kinds = std::map<std::string, ModelKind, std::less<>>;

Kinds& kinds() {
  // All models are named here, because linkers drop unreferenced files of an archive.
  static Kinds all = [] {
    Kinds built_in;
    for (ModelKind (*make)() : {cifar10_kind, lenet_kind, resnet18_kind, resnet50_kind,
                                text_match_kind, two_tower_kind, wide_deep_kind}) {
      ModelKind kind = make();
      built_in.emplace(std::string(kind.name), std::move(kind));
    }
    return built_in;
  }();
  return all;
}

}  // namespace

Batch::Batch(const StagedBatch& batch)
    : find_([&batch](std::string_view name) { return batch[name]; }),
      has_([&batch](std::string_view name) { return batch.has(name); }),
      rows_(batch.size() > 0 ? batch.at(0).shape[0] : 0),
      valid_rows_(batch.valid_rows()) {}

Batch::Batch(const StagedBatch& batch, std::string component, const DeviceTensor& instead)
    : Batch(batch) {
  find_ = [&batch, name = std::move(component), instead](std::string_view wanted) {
    return wanted == name ? instead : batch[wanted];
  };
}

Batch::Batch(const Element& batch)
    : find_([&batch](std::string_view name) {
        const Tensor& tensor = batch[name];
        // The const_cast is safe, since models only read.
        return DeviceTensor{tensor.dtype(), tensor.shape(),
                            const_cast<std::byte*>(tensor.data())};  // NOLINT
      }),
      has_([&batch](std::string_view name) { return batch.has(name); }),
      rows_(batch.empty() ? 0 : batch[0].dim(0)),
      valid_rows_(batch.valid_rows < 0 ? rows_ : batch.valid_rows) {}

DeviceTensor Batch::find(std::string_view component, DType dtype) const {
  DeviceTensor tensor = find_(component);
  if (tensor.dtype != dtype)
    throw Error(ErrorCode::invalid_argument, "component " + std::string(component) + ": expected " +
                                                 std::string(name_of(dtype)) + ", got " +
                                                 std::string(name_of(tensor.dtype)));
  return tensor;
}

Array Batch::f32(std::string_view component) const {
  const DeviceTensor tensor = find(component, DType::f32);
  return Array::view(reinterpret_cast<const float*>(tensor.data), tensor.shape);
}

std::span<const std::int64_t> Batch::i64(std::string_view component) const {
  const DeviceTensor tensor = find(component, DType::i64);
  return {reinterpret_cast<const std::int64_t*>(tensor.data),
          static_cast<std::size_t>(tensor.shape.volume())};
}

const float* Batch::weights() const {
  return has(kWeight) ? f32(kWeight).data() : nullptr;
}

const ModelKind& model_kind(std::string_view name) {
  const auto found = kinds().find(name);
  if (found != kinds().end()) return found->second;
  std::string known;
  for (const std::string& other : model_names()) known += (known.empty() ? "" : ", ") + other;
  throw Error(ErrorCode::not_found, "no model " + std::string(name) + "; there are: " + known);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds()) names.push_back(name);
  return names;
}

void register_model(ModelKind kind) {
  if (kind.name.empty() || !kind.make)
    throw Error(ErrorCode::invalid_argument, "a model needs a name, and a function that makes it");
  std::string name = kind.name;
  const auto [at, is_new] = kinds().try_emplace(name, std::move(kind));
  if (!is_new) throw Error(ErrorCode::invalid_argument, "there is a model " + name + " already");
}

}  // namespace penstock::towers
