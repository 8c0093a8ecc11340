// The results of a worker for a group, as a message.
#include <algorithm>
#include <cstring>

#include "pipeline/remote/group_wire.h"
#include "pipeline/stage/support.h"

namespace penstock::remote {
namespace {

void put_failures(const Failures& failures, StateWriter& head) {
  head.put(failures.size());
  for (const auto& [item, status] : failures) {
    head.put(item);
    put(head, status);
  }
}

void get_failures(StateReader& head, Group& group, const std::string& stage) {
  std::size_t next = 0;
  for (std::uint64_t count = head.get(); count > 0; --count) {
    const std::uint64_t item = head.get();
    if (item < next || item >= group.count) malformed("which element failed");
    next = item + 1;
    group.failures.emplace_back(item,
                                locate(get_status(head), origin_of(group.items[item]), stage));
  }
}

bool failed(const Failures& failures, std::size_t item) {
  return std::ranges::any_of(failures,
                             [item](const auto& failure) { return failure.first == item; });
}

/// Byte strings of one component, in the order of the items.
struct Texts {
  BufferPtr memory;
  std::vector<std::size_t> lengths;
};

Texts get_texts(StateReader& head, Incoming& message, Group& group) {
  Texts texts;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < group.count; ++i) {
    texts.lengths.push_back(head.get());
    if (texts.lengths.back() > message.left() - bytes) malformed("the length of a byte string");
    bytes += texts.lengths.back();
  }
  if (bytes == 0) return texts;
  texts.memory = group.context->allocate(bytes);
  message.take(texts.memory->data(), bytes);
  return texts;
}

void finish_rows(const Pixels& pixels, Incoming& message, Group& group, std::size_t component) {
  std::vector<std::byte> copied;
  Places(group.places).for_each(group.count, [&](const Place& place) {
    for (std::size_t k = 0; k < place.count; ++k)
      pixels.finish(message.view(pixels.count(), copied).data(),
                    place.slot->row(place.row + k).data(component));
  });
  image::finish_image();
}

/// Byte strings are stored in their rows like the result of any op.
void store_texts(Group& group, const SlotLayout& layout, const std::vector<Texts>& texts) {
  std::vector<std::size_t> at(texts.size());
  Places(group.places).for_each(group.count, [&](const Place& place) {
    for (std::size_t k = 0; k < place.count; ++k) {
      WorkItem item;
      item.element.start(layout.names);
      const Row row = place.slot->row(place.row + k);
      for (std::size_t c = 0, t = 0; c < layout.element.size(); ++c) {
        const ComponentSpec& component = layout.element[c];
        if (component.dtype != DType::bytes) {
          item.element.append(component.dtype, component.shape, row.data(c), BufferPtr());
          continue;
        }
        const std::size_t length = texts[t].lengths[place.first + k];
        std::string_view text;
        if (length > 0)
          text = {reinterpret_cast<const char*>(texts[t].memory->data()) + at[t], length};
        at[t] += length;
        item.element.append(Tensor::bytes(text, length > 0 ? texts[t].memory : BufferPtr()));
        ++t;
      }
      if (failed(group.failures, place.first + k)) continue;
      if (place.slot->store_fitting({&item, 1}, place.row + k) != 1)
        malformed("elements that do not fit their batch");
    }
  });
}

}  // namespace

void encode_rows(std::size_t count, const Failures& failures, Slot& slot,
                 const PixelsOfRows& pixels, Results& results) {
  StateWriter head;
  const SlotLayout& layout = slot.layout();
  put_failures(failures, head);
  for (const auto& [item, status] : failures) {
    for (std::size_t c = 0; c < layout.element.size(); ++c)
      if (std::byte* const row = slot.row(item).data(c); row != nullptr)
        std::memset(row, 0, layout.strides[c]);
  }
  for (std::size_t c = 0; c < layout.element.size(); ++c) {
    if (layout.element[c].dtype != DType::bytes) {
      head.put(pixels[c] ? 1 : 0);
      results.values.emplace_back(slot.row(0).data(c), layout.strides[c] * count);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view text = failed(failures, i) ? std::string_view() : slot.text(c, i);
      head.put(text.size());
      results.values.emplace_back(reinterpret_cast<const std::byte*>(text.data()), text.size());
    }
  }
  results.head = head.take();
}

void decode_rows(StateReader& head, Incoming& message, Group& group, const std::string& stage) {
  const SlotLayout& layout = group.places.front().slot->layout();
  get_failures(head, group, stage);
  std::vector<Texts> texts;
  PixelsOfRows pixels;  // set once a component has pixels
  for (std::size_t c = 0; c < layout.element.size(); ++c) {
    if (layout.element[c].dtype == DType::bytes) {
      texts.push_back(get_texts(head, message, group));
      continue;
    }
    if (head.get() != 0) {
      if (pixels.empty()) pixels = pixels_of(group.all_items(), layout);
      if (!pixels[c]) malformed("pixels of what is no image");
      finish_rows(*pixels[c], message, group, c);
      continue;
    }
    Places(group.places).for_each(group.count, [&](const Place& place) {
      message.take(place.slot->row(place.row).data(c), layout.strides[c] * place.count);
    });
  }
  if (!head.at_end() || message.left() > 0) malformed("bytes follow its end");
  if (!texts.empty()) store_texts(group, layout, texts);
}

void encode_values(std::span<WorkItem> all, Results& results) {
  StateWriter items;
  ElementWriter elements;
  for (const WorkItem& item : all) {
    items.put(item.status.ok() ? 1 : 0);
    items.put(item.keep ? 1 : 0);
    items.put(static_cast<std::uint64_t>(item.key));
    if (!item.status.ok()) {
      put(items, item.status);
    } else if (item.keep) {  // for a dropped element, only this result is needed
      elements.put(items, item.element, Provenance());
    }
  }
  StateWriter head;
  elements.put_layouts(head);
  results.head = head.take() + items.bytes();
  results.made = std::move(elements.values());
  results.values.emplace_back(results.made);
}

void decode_values(StateReader& head, Incoming& message, Group& group, const std::string& stage) {
  const ElementReader elements(head);
  for (std::size_t i = 0; i < group.count; ++i) {
    WorkItem& item = group.work[i];
    const bool ok = head.get() != 0;
    item.keep = head.get() != 0;
    item.key = static_cast<std::int64_t>(head.get());
    item.status = Status();
    if (!ok) {
      item.status = locate(get_status(head), origin_of(group.items[i]), stage);
    } else if (item.keep) {
      item.element = elements.get(head, message, *group.context);
    }
  }
  if (!head.at_end() || message.left() > 0) malformed("bytes follow its end");
}

}  // namespace penstock::remote
