// Assigns rows of batches to the results of a program's last op.
#pragma once

#include <cstddef>
#include <forward_list>
#include <new>
#include <span>
#include <vector>

#include <penstock/source.h>

#include "pipeline/engine/make/places.h"
#include "pipeline/stage/program.h"

namespace penstock {

/// Gives rows to items before the last step of their program that makes values. If a later step
/// drops components, the rows are views of the slot's rows, and this object holds them. The rows
/// are then valid as long as this object exists. Not synchronised.
class RowPlaces {
 public:
  void assign(std::span<WorkItem> work, const Places& places, const Program& program) {
    if (places.empty()) return;
    places.for_each(work.size(), [&](const Place& place) {
      assign(work.first(place.count), place, program);
      work = work.subspan(place.count);
    });
  }

 private:
  struct Bases {
    std::vector<std::byte*> memory;
    std::vector<std::size_t> strides;
  };

  void assign(std::span<WorkItem> work, const Place& place, const Program& program) {
    if (program.final_places().empty()) {
      for (std::size_t i = 0; i < work.size(); ++i) work[i].row = place.slot->row(place.row + i);
      return;
    }
    try {
      const Bases& bases = bases_of(*place.slot, program);
      for (std::size_t i = 0; i < work.size(); ++i)
        work[i].row = Row(bases.memory.data(), bases.strides.data(), place.row + i);
    } catch (const std::bad_alloc&) {
      for (WorkItem& item : work) item.row = Row();  // its value is copied to its place later
    }
  }

  const Bases& bases_of(const Slot& slot, const Program& program) {
    Bases& bases = bases_.emplace_front();
    const Row first = slot.row(0);
    for (const int place : program.final_places()) {
      const auto at = static_cast<std::size_t>(place);
      bases.memory.push_back(place < 0 ? nullptr : first.data(at));
      bases.strides.push_back(place < 0 ? 0 : slot.layout().strides[at]);
    }
    return bases;
  }

  std::forward_list<Bases> bases_;
};

}  // namespace penstock
