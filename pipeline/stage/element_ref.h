// The items that stages move: references to elements that need not exist yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/element.h>
#include <penstock/error.h>

#include "pipeline/stage/program.h"

namespace penstock {

class Payload;
class PayloadCharges;

/// A reference to one element: the data it is made from, and how. It has 32 bytes, so moving it is
/// cheap.
struct ElementRef {
  std::uint64_t index = 0;    ///< the record's number, for programs with a source
  std::uint64_t ordinal = 0;  ///< the path of indices that made it, mixed to 64 bits
  ProgramPtr program;         ///< null: the payload holds the value itself
  Ref<Payload> payload;       ///< null for records of a source
};

/// An element that exists, an error in its place, or the items whose elements make one tuple or
/// batch. Payloads are recycled: `Payload::make` takes one from a pool, and the last reference
/// returns it.
class Payload {
 public:
  static Ref<Payload> make();
  static Ref<Payload> make(Element element);
  static Ref<Payload> make(Status status);

  Element element;
  Status status;
  bool keep = true;      ///< false: a predicate rejected the element
  bool ends = false;     ///< the error after which a stage gives nothing more
  std::int64_t key = 0;  ///< the element's class, group or length, if a stage asked for it
  // The element's origin, for errors: a record of a source, or of a stream.
  ProgramPtr origin;        ///< the source of this program has the record
  std::uint64_t index = 0;  ///< the record's number in the source
  std::shared_ptr<const std::string> shard;
  std::int64_t offset = -1;          ///< position in `shard`
  std::vector<ElementRef> children;  ///< the parts of a tuple (zip) or a batch
  PayloadCharges* charge =
      nullptr;  ///< what the budget is charged for the payload itself, if it is

  /// Returns true to the first caller only, which may then set `charge`. Thread-safe.
  bool claim_charge() noexcept { return !charged_.exchange(true, std::memory_order_relaxed); }

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
  /// Returns true if the caller holds the only reference.
  bool unique() const noexcept { return refs_.load(std::memory_order_acquire) == 1; }

 private:
  friend class PayloadPool;
  Payload() = default;
  ~Payload() = default;
  std::atomic<std::uint32_t> refs_{0};
  std::atomic<bool> charged_{false};
};

/// Returns an item that holds a value or an error.
inline ElementRef ref_to(Ref<Payload> payload, std::uint64_t ordinal) {
  ElementRef item;
  item.ordinal = ordinal;
  item.payload = std::move(payload);
  return item;
}

/// True if the item stands for an error.
inline bool is_error(const ElementRef& item) noexcept {
  return item.payload && !item.program && !item.payload->status.ok();
}

/// Returns an error in the item that is no element's own: there was too little memory, or nothing
/// more comes. Returns null if there is none. No stage drops such an item, because otherwise a run
/// could end early, or lose elements, as if all was well.
inline const Error* run_error(const ElementRef& item) noexcept {
  if (!item.payload) return nullptr;
  const Payload& payload = *item.payload;
  if (!payload.status.ok() &&
      (payload.ends || payload.status.error().code() == ErrorCode::resource_exhausted))
    return &payload.status.error();
  for (const ElementRef& child : payload.children)
    if (const Error* const error = run_error(child)) return error;
  return nullptr;
}

}  // namespace penstock
