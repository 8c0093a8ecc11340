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

#include "towers/array.h"

namespace penstock::towers {

class Gpu;
class VariableStore;

/// One tower's copy of a variable. Used by the tower's thread, and by the strategy between steps.
/// In a backward pass each that took it up with Scope::get adds a gradient, once or not at all:
///
///     float keep = variable.accumulate();  // then gradient = keep * gradient + …, or enqueue that
///     variable.added();
struct Variable {
  std::string name;  ///< "conv1/weights"
  Array value;
  Array gradient;             ///< meaningless unless has_gradient
  bool has_gradient = false;  ///< set by the backward pass, taken down before each step
  bool trainable = true;      ///< false: a statistic, such as a moving average; has no gradient
  Gpu* gpu = nullptr;         ///< that it lies on; null: host memory
  int users = 0;              ///< how often the tower took it up
  int awaited = 0;            ///< of these, who has not yet added a gradient in this step
  /// Told by the last of them: the gradient is final. Empty: nobody asks.
  std::function<void()> when_final{};

  void begin_step() noexcept;
  /// What whoever adds a gradient multiplies the old one by: 0 for the first of a step, then 1.
  /// Throws Error{invalid_argument} for a gradient that was told to be final.
  float accumulate();
  /// It has been added.
  void added();
};

/// What a variable begins with: a function of the seed and its name alone.
struct Initializer {
  enum class Kind { constant, normal, truncated_normal, uniform } kind = Kind::constant;
  float scale = 0;  ///< the constant, the standard deviation, or the bound of [-scale, scale)

  static Initializer constant(float value) { return {Kind::constant, value}; }
  static Initializer normal(float deviation) { return {Kind::normal, deviation}; }
  /// Draws beyond two standard deviations are drawn again, as TF does.
  static Initializer truncated_normal(float deviation) {
    return {Kind::truncated_normal, deviation};
  }
  /// Glorot and Bengio, 2010: uniform in ±sqrt(6 / (in + out)).
  static Initializer glorot(std::int64_t in, std::int64_t out);
  /// He et al., 2015, for what a relu follows: normal with sqrt(2 / in).
  static Initializer he(std::int64_t in);

  void fill(std::span<float> values, std::uint64_t seed, std::string_view name) const;
};

struct VariableOptions {
  Initializer initializer{};
  bool trainable = true;
};

/// One of the devices that a tower's model is divided among.
struct Part {
  DevicePtr device{};
  Gpu* gpu = nullptr;  ///< null: computed by the host
};

/// A place for names within a tower. Cheap to copy; the store must outlive it.
class Scope {
 public:
  /// "conv1" below this scope.
  Scope operator/(std::string_view name) const;
  /// The same place, where variables that this tower has are shared instead of created.
  Scope reuse() const;
  /// Creates the variable, or shares it where the scope reuses. Throws Error{invalid_argument}
  /// naming the variable: it exists and is to be created, it does not and is to be reused, or it
  /// has another shape.
  Variable& get(std::string_view name, const Shape& shape, const VariableOptions& options) const;

  int tower() const noexcept { return tower_; }
  const std::string& prefix() const noexcept { return prefix_; }
  /// What the tower computes with; null: threads of the host. Each layer has a form for either.
  Gpu* gpu() const;
  /// The devices that the tower's model is to be divided among, of which the first gets its input;
  /// empty: it is not. Whoever asks divides it, with `on`.
  std::span<const Part> parts() const;
  /// The same place, for what lies on this part and is computed by it.
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

/// The variables of all towers. The first tower creates, the others reuse: they get copies of equal
/// value. Build the towers' models one after the other on one thread, then `pack`.
///
///     VariableStore store(2, 42);
///     Variable& w = (store.tower(0) / "fc").get("weights", {10, 4}, {Initializer::he(4)});
///     store.tower(1).get("fc/weights", {10, 5}, {});  // Error: … has shape [10,4], not [10,5]
class VariableStore {
 public:
  /// Throws Error{invalid_argument} without towers.
  VariableStore(int towers, std::uint64_t seed);

  Scope tower(int tower);
  /// The tower's variables lie, and are computed with, on this GPU, which must outlive the store.
  /// REQUIRES: nothing was asked of the tower's scope yet.
  void use(int tower, Gpu& gpu);
  Gpu* gpu(int tower) const { return towers_[static_cast<std::size_t>(tower)].gpu; }
  /// The model of the only tower, which is made after this, is to be divided among these, which are
  /// all GPUs or none.
  void divide(std::vector<Part> parts) { parts_ = std::move(parts); }
  const std::vector<Part>& parts() const noexcept { return parts_; }
  /// What the tower computes with: its GPU, or those of its parts.
  std::vector<Gpu*> gpus(int tower) const;
  /// Puts each tower's values, and its gradients, one behind the other, so that they are exchanged
  /// in one piece; not those of several GPUs. Each begins at a multiple of 256 bytes, behind zeros.
  /// Throws Error{invalid_argument} naming a variable that a tower did not take up, or for a model
  /// that did not divide itself.
  void pack();

  int towers() const noexcept { return static_cast<int>(towers_.size()); }
  /// In the order of creation, the same on every tower.
  std::span<Variable* const> of(int tower) const;
  /// After `pack`: all values, or gradients, of a tower; nothing if several GPUs have them.
  std::span<float> values(int tower) noexcept;
  std::span<float> gradients(int tower) noexcept;
  /// Where a variable begins in these.
  std::size_t offset(std::size_t variable) const { return offsets_.at(variable); }
  /// Gives every tower the value that tower 0 has of a variable.
  void share(std::size_t variable);
  /// Of names and values of tower 0.
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
