// The contract of a model, and the registry of models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/image.h>
#include <penstock/staged_batch.h>
#include <penstock/towers/layer.h>

namespace penstock::towers {

struct ColumnModel;

/// The component with the weights of rows in the loss and in evaluations, if the data have it: one
/// f32 each. The name is unlikely to be that of a column.
inline constexpr const char* kWeight = "#weight";

/// The component with the position of each row in the data, from 0: one i64 each. Optional.
inline constexpr const char* kRow = "#row";

/// The components of one batch, as they lie on the tower's device. A view.
class Batch {
 public:
  /// Views a staged batch.
  explicit Batch(const StagedBatch& batch);
  /// Views a staged batch, with another tensor instead of a component.
  Batch(const StagedBatch& batch, std::string component, const DeviceTensor& instead);
  /// Views an element in host memory.
  explicit Batch(const Element& batch);

  /// Returns the number of rows.
  std::int64_t rows() const noexcept { return rows_; }
  /// Returns the number of rows that hold samples; the rows after them are padding.
  std::int64_t valid_rows() const noexcept { return valid_rows_; }
  /// Returns a component of any numbers of f32. Throws Error{not_found}, or Error{invalid_argument}
  /// for another dtype.
  Array f32(std::string_view component) const;
  /// Returns a component of any numbers of i64. Throws as `f32` does.
  std::span<const std::int64_t> i64(std::string_view component) const;
  /// Returns the component kWeight, one f32 for each row; null: rows weigh 1 each.
  const float* weights() const;
  /// Returns true if the batch has this component.
  bool has(std::string_view component) const { return has_(component); }
  /// Returns the shape of a component.
  Shape shape(std::string_view component) const { return find_(component).shape; }

 private:
  DeviceTensor find(std::string_view component, DType dtype) const;

  std::function<DeviceTensor(std::string_view)> find_;
  std::function<bool(std::string_view)> has_;
  std::int64_t rows_ = 0;
  std::int64_t valid_rows_ = 0;
};

/// The loss of a batch.
struct Loss {
  double sum = 0;             ///< over valid rows
  double regularization = 0;  ///< is added to the mean
  std::int64_t correct = 0;   ///< rows whose class was predicted
  std::int64_t rows = 0;      ///< valid rows

  /// Returns the mean over the rows, with regularisation.
  double mean() const noexcept {
    return (rows > 0 ? sum / static_cast<double>(rows) : 0) + regularization;
  }
};

/// A network with its loss, on one tower; the tower's thread uses it. Its variables are those that
/// it requested from its scope when it was made.
class Model {
 public:
  virtual ~Model() = default;
  /// Returns the loss of a batch. The batch must not change until `backward` has returned.
  virtual Loss forward(const Batch& batch, const Pass& pass) = 0;
  /// Adds the gradients of the mean loss to those of the variables.
  virtual void backward(const Pass& pass) = 0;
  /// Returns the scores of each row of the last `forward`, f32 [rows,n] in host memory. They are
  /// probabilities of classes, unless ModelKind::outputs names them. Empty: the model has no
  /// scores.
  virtual Array scores(const Pass& /*pass*/) { return {}; }
};
/// The owner of a model.
using ModelPtr = std::unique_ptr<Model>;

/// A component that a model reads, and the forms that it accepts.
struct TakenComponent {
  /// A dtype and a shape that the model accepts.
  struct Form {
    DType dtype = DType::u8;  ///< of its values
    Shape shape{};            ///< a dimension of -1 is any, also an unknown one
  };
  std::string name;         ///< in the element
  std::vector<Form> forms;  ///< one of these fits
};

/// A model by name, with settings that are known to train it well.
struct ModelKind {
  std::string name{};  ///< "cifar10"
  std::string help{};  ///< one line
  /// Makes the model of one tower.
  std::function<ModelPtr(const Scope&)> make{};
  /// Turns stored elements into those that the model takes; augments while training.
  std::function<Dataset(const Dataset&, bool training)> input{};
  /// Returns the image ops with which `input` ends, for encoded images. Null: there are none.
  std::function<ImageOps(bool training)> images{};
  std::string optimizer = "momentum:0.9";  ///< see make_optimizer
  std::string schedule = "constant:0.01";  ///< see Schedule::parse
  float clip_norm = 0;                     ///< see UpdateOptions
  std::vector<std::string> outputs{};      ///< names of scores; empty: those of classes
  std::vector<TakenComponent> takes{};     ///< components that `input` reads; empty: not stated
  /// The spec of the elements that `input` makes. Data that have it go to the model unchanged.
  Spec ready{};
  std::int64_t classes = 0;  ///< labels of data that are ready are below it; 0: any are
  /// For a model over feature columns, which has no `make` and no `input` until it is given
  /// columns. Returns the kind that has them. Throws Error{invalid_argument} for columns that it
  /// does not take.
  std::function<ModelKind(const ColumnModel& columns)> over{};
};

/// Registers a kind by its name, in addition to those that come with Penstock. No other thread may
/// look up a kind meanwhile. Throws Error{invalid_argument} if the name is taken, or if there is no
/// name or no `make`.
void register_model(ModelKind kind);
/// Returns the kind of that name; its address does not change. Throws Error{not_found} that lists
/// the names.
const ModelKind& model_kind(std::string_view name);
/// Returns the names of all kinds, in alphabetical order.
std::vector<std::string> model_names();

}  // namespace penstock::towers
