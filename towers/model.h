// The contract of a model, and the list of those that come along.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/staged_batch.h>

#include "towers/layer.h"

namespace penstock::towers {

/// The components of one batch, as they lie on the tower's device. A view.
class Batch {
 public:
  explicit Batch(const StagedBatch& batch);
  /// Of an element in host memory.
  explicit Batch(const Element& batch);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t valid_rows() const noexcept { return valid_rows_; }
  /// The component, any numbers of f32 or i64. Throws Error{not_found}, or Error{invalid_argument}
  /// for another dtype.
  Array f32(std::string_view component) const;
  std::span<const std::int64_t> i64(std::string_view component) const;
  /// Shape of a component.
  Shape shape(std::string_view component) const { return find_(component).shape; }

 private:
  DeviceTensor find(std::string_view component, DType dtype) const;

  std::function<DeviceTensor(std::string_view)> find_;
  std::int64_t rows_ = 0;
  std::int64_t valid_rows_ = 0;
};

/// What a batch came to.
struct Loss {
  double sum = 0;             ///< over valid rows
  double regularization = 0;  ///< is added to the mean
  std::int64_t correct = 0;
  std::int64_t rows = 0;  ///< valid ones

  double mean() const noexcept {
    return (rows > 0 ? sum / static_cast<double>(rows) : 0) + regularization;
  }
};

/// A network with its loss, on one tower: used by that tower's thread. Its variables are those that
/// it asked its scope for when it was made.
class Model {
 public:
  virtual ~Model() = default;
  /// The batch must stay as it is until `backward` has returned.
  virtual Loss forward(const Batch& batch, const Pass& pass) = 0;
  /// Adds the gradients of the loss's mean to those of the variables.
  virtual void backward(const Pass& pass) = 0;
};
using ModelPtr = std::unique_ptr<Model>;

/// A model by name, with what is known to train it well.
struct ModelKind {
  std::string name;  ///< "cifar10"
  std::string help;  ///< one line
  std::function<ModelPtr(const Scope&)> make;
  /// From elements as they are stored to those that the model takes; augments while training.
  std::function<Dataset(const Dataset&, bool training)> input;
  std::string optimizer = "momentum:0.9";  ///< see make_optimizer
  std::string schedule = "constant:0.01";  ///< see Schedule::parse
  float clip_norm = 0;                     ///< see UpdateOptions
};

/// Every kind that was registered, by name. Throws Error{not_found} that lists them.
const ModelKind& model_kind(std::string_view name);
std::vector<std::string> model_names();

/// Lists a kind while the program is loaded: a model's one file ends in
///     const ModelRegistration registration({.name = "lenet", …});
class ModelRegistration {
 public:
  explicit ModelRegistration(ModelKind kind);
};

}  // namespace penstock::towers
