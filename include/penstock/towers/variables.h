// Variables: the parameters of a model, on each tower.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/device.h>
#include <penstock/towers/array.h>
#include <penstock/towers/table_rows.h>

namespace penstock::towers {

class Gpu;
class VariableStore;

/// One tower's copy of a variable. The tower's thread uses it, and the strategy between steps. In a
/// backward pass, each user that requested it with Scope::get adds a gradient, once or not at all:
///
///     float keep = variable.accumulate();  // then gradient = keep * gradient + …, or enqueue that
///     variable.added();
struct Variable {
  std::string name;           ///< "conv1/weights"
  Array value;                ///< one tower's copy
  Array gradient;             ///< meaningless unless has_gradient
  bool has_gradient = false;  ///< set by the backward pass, cleared before each step
  bool trainable = true;      ///< false: a statistic, such as a moving average; has no gradient
  bool by_rows = false;       ///< a table of which a step reads some rows; `read` is told which
  Gpu* gpu = nullptr;         ///< the GPU that it lies on; null: host memory
  int users = 0;              ///< how often the tower requested it
  int awaited = 0;            ///< users that have not yet added a gradient in this step
  /// Called by the last user's `added`: the gradient is final. Empty: no call.
  std::function<void()> when_final{};
  /// For a table that lies elsewhere. Empty: all rows are here, and the gradient is that of all.
  std::optional<TableRows> rows{};

  /// Begins a step, in which no gradient has been added.
  void begin_step() noexcept;
  /// Returns the factor of the old gradient when another is added: 0 for the first of a step, then
  /// 1. Throws Error{invalid_argument} for a gradient that was declared final.
  float accumulate();
  /// Declares that the gradient has been added.
  void added();

  /// Returns true if readers of rows must call `read` first.
  bool asks_for_rows() const noexcept { return rows && rows->in_step(); }
  /// Makes the rows in `ids` readable; `ids` are in host memory. Throws what fetching them throws.
  void read(std::span<const std::int64_t> ids);
  /// Sets the gradient to zeros, where it is meaningful.
  void clear_gradient();
};

/// The initial values of a variable: a function of the seed and its name alone.
struct Initializer {
  /// The kind of the distribution, and the one that this is.
  enum class Kind { constant, normal, truncated_normal, uniform } kind = Kind::constant;
  float scale = 0;  ///< the constant, the standard deviation, or the bound of [-scale, scale)

  /// Returns an initializer that sets all values to `value`.
  static Initializer constant(float value) { return {Kind::constant, value}; }
  /// Returns a normal distribution with this standard deviation.
  static Initializer normal(float deviation) { return {Kind::normal, deviation}; }
  /// Returns a normal distribution that repeats draws beyond two standard deviations, as TF does.
  static Initializer truncated_normal(float deviation) {
    return {Kind::truncated_normal, deviation};
  }
  /// Returns the uniform distribution in ±sqrt(6 / (in + out)): Glorot and Bengio, 2010.
  static Initializer glorot(std::int64_t in, std::int64_t out);
  /// Returns the normal distribution with sqrt(2 / in), for layers before a relu: He et al., 2015.
  static Initializer he(std::int64_t in);

  /// Fills `values`, which are those of the variable `name`.
  void fill(std::span<float> values, std::uint64_t seed, std::string_view name) const;
};

/// The options of a variable; see Variable.
struct VariableOptions {
  Initializer initializer{};  ///< of its values
  bool trainable = true;      ///< false: updates leave it as it is
  bool by_rows = false;       ///< a table of which a step reads some rows
};

/// One of the devices that a tower's model is divided among.
struct Part {
  DevicePtr device{};  ///< the device
  Gpu* gpu = nullptr;  ///< null: the host computes
};

/// A place for names within a tower. Cheap to copy; the store must outlive it.
class Scope {
 public:
  /// Returns the scope "conv1" below this scope.
  Scope operator/(std::string_view name) const;
  /// Returns the same place, where existing variables of this tower are shared instead of created.
  Scope reuse() const;
  /// Creates the variable, or shares it if the scope reuses. Throws Error{invalid_argument} naming
  /// a variable that must be created and exists, that must be reused and does not exist, or that
  /// has another shape.
  Variable& get(std::string_view name, const Shape& shape, const VariableOptions& options) const;

  /// Returns the tower's number.
  int tower() const noexcept { return tower_; }
  /// Returns the scope's name, with a "/" after each part.
  const std::string& prefix() const noexcept { return prefix_; }
  /// Returns the GPU that the tower computes with; null: threads of the host. Each layer has a form
  /// for either.
  Gpu* gpu() const;
  /// Returns the devices that the tower's model is to be divided among; the first gets its input.
  /// Empty: it is not divided. A model that calls this divides itself, with `on`.
  std::span<const Part> parts() const;
  /// Returns the same place, for layers that lie on this part and are computed by it.
  Scope on(std::size_t part) const;

 private:
  friend class VariableStore;
  Scope(VariableStore& store, int tower, std::string prefix, bool reuse, std::size_t part = 0)
      : store_(&store), tower_(tower), prefix_(std::move(prefix)), reuse_(reuse), part_(part) {}

  VariableStore* store_;
  int tower_;
  std::string prefix_;
  bool reuse_;
  std::size_t part_;
};

/// The variables of all towers. The first tower creates variables and the others reuse them: they
/// get copies of equal value. Build the towers' models one after the other on one thread, then call
/// `pack`.
///
///     VariableStore store(2, 42);
///     Variable& w = (store.tower(0) / "fc").get("weights", {10, 4}, {Initializer::he(4)});
///     store.tower(1).get("fc/weights", {10, 5}, {});  // Error: … has shape [10,4], not [10,5]
class VariableStore {
 public:
  /// Makes a store for this number of towers. Throws Error{invalid_argument} without towers.
  VariableStore(int towers, std::uint64_t seed);

  /// Returns the tower's outermost scope.
  Scope tower(int tower);
  /// Puts the tower's variables and their computation on this GPU, which must outlive the store.
  /// REQUIRES: the tower's scope has not been used yet.
  void use(int tower, Gpu& gpu);
  /// Returns the tower's GPU; null: the host.
  Gpu* gpu(int tower) const { return towers_[static_cast<std::size_t>(tower)].gpu; }
  /// Divides the model of the only tower among `parts`, which are all GPUs or none. Call it before
  /// the model is made.
  void divide(std::vector<Part> parts) { parts_ = std::move(parts); }
  /// Returns these parts.
  const std::vector<Part>& parts() const noexcept { return parts_; }
  /// Returns the GPUs that the tower computes with: its own, or those of its parts.
  std::vector<Gpu*> gpus(int tower) const;
  /// Puts each tower's values one after the other, and its gradients too, so that they are
  /// exchanged in one piece. It does not do so with those of several GPUs. Each begins at a
  /// multiple of 256 bytes; zeros fill the gaps. Throws Error{invalid_argument} naming a variable
  /// that a tower did not request, or for a model that did not divide itself.
  void pack();

  /// Returns the number of towers.
  int towers() const noexcept { return static_cast<int>(towers_.size()); }
  /// Returns the tower's variables in the order of creation, which is the same on every tower.
  std::span<Variable* const> of(int tower) const;
  /// Returns all values of a tower, after `pack`; nothing if they lie on several GPUs.
  std::span<float> values(int tower) noexcept;
  /// Returns all gradients of a tower, after `pack`; nothing if they lie on several GPUs.
  std::span<float> gradients(int tower) noexcept;
  /// Returns the position of a variable's first value in these.
  std::size_t offset(std::size_t variable) const { return offsets_.at(variable); }
  /// Gives every tower the value that tower 0 has of a variable.
  void share(std::size_t variable);
  /// Returns a digest of the names and values of tower 0.
  std::uint64_t digest() const;

 private:
  friend class Scope;
  struct Entry {
    std::size_t index;
    Shape shape;
    VariableOptions options;
  };
  struct Tower {
    Gpu* gpu = nullptr;
    std::vector<std::unique_ptr<Variable>> owned{};
    std::vector<Variable*> variables{};
    Array values{}, gradients{};
  };
  Variable& get(int tower, const std::string& name, const Shape& shape,
                const VariableOptions& options, bool reuse, Gpu* gpu);

  const std::uint64_t seed_;
  std::map<std::string, Entry> entries_;
  std::vector<Tower> towers_;
  std::vector<std::size_t> offsets_;
  std::vector<Part> parts_;
  bool asked_for_parts_ = false;
};

}  // namespace penstock::towers
