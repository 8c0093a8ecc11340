#include "pipeline/remote/group_wire.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "pipeline/core/sizes.h"
#include "pipeline/io/element_codec.h"
#include "pipeline/stage/support.h"

namespace penstock::remote {
namespace {

constexpr int kMostNested = 16;
constexpr std::size_t kMostItems = 1 << 20;  // of a group, including children
constexpr std::size_t kMostLayouts = 64;
constexpr std::size_t kMostComponents = 4096;

enum class Holds : std::uint8_t { nothing, value, children };

class ItemWriter {
 public:
  ItemWriter(ProgramNumbers& programs, std::size_t most) : programs_(programs), most_(most) {}

  /// Returns false if another process can't make the item, or if the request grows too large.
  bool put(const ElementRef& item, int depth = 0) {
    std::uint64_t program = 0;
    if (item.program) {
      const std::optional<std::uint64_t> number = number_of(*item.program);
      if (!number) return false;
      program = *number + 1;
      needed_ = std::max(needed_, program);
    }
    if (++count_ > kMostItems || depth > kMostNested) return false;
    items_.put(program);
    items_.put(item.index);
    put_fixed(items_, item.ordinal);
    if (!item.payload) return put_holds(Holds::nothing);
    const bool gathers = item.program && item.program->gather() != nullptr;
    if (gathers) {
      put_holds(Holds::children);
      items_.put(item.payload->children.size());
      return std::ranges::all_of(item.payload->children,
                                 [&](const ElementRef& child) { return put(child, depth + 1); });
    }
    put_holds(Holds::value);
    put_value(*item.payload, item);
    return elements_.values().size() <= most_;
  }

  AskBody body(const SegmentWork& segment, std::size_t stage, std::size_t count) {
    StateWriter head;
    head.put(stage);
    head.put(segment.layout != nullptr ? 1 : 0);
    put_fixed(head, segment.key);
    elements_.put_layouts(head);
    head.put(count);
    AskBody body;
    body.head = head.take() + items_.bytes();
    body.values = std::move(elements_.values());
    body.programs = needed_;
    for (const auto& [program, number] : numbers_)
      if (number) body.used.push_back(*number);
    return body;
  }

 private:
  bool put_holds(Holds holds) {
    items_.put(static_cast<std::uint64_t>(holds));
    return true;
  }
  std::optional<std::uint64_t> number_of(const Program& program) {
    for (const auto& [known, number] : numbers_)
      if (known == &program) return number;
    return numbers_.emplace_back(&program, programs_.number(program)).second;
  }
  void put_value(const Payload& payload, const ElementRef& item) {
    items_.put(payload.status.ok() ? 1 : 0);
    items_.put(payload.keep ? 1 : 0);
    items_.put(static_cast<std::uint64_t>(payload.key));
    if (!payload.status.ok()) return remote::put(items_, payload.status);
    elements_.put(items_, payload.element, origin_of(item));
  }

  ProgramNumbers& programs_;
  const std::size_t most_;
  StateWriter items_;
  ElementWriter elements_;
  std::size_t count_ = 0;
  std::uint64_t needed_ = 0;
  std::vector<std::pair<const Program*, std::optional<std::uint64_t>>> numbers_;  // met so far
};

class ItemReader {
 public:
  ItemReader(Incoming& message, const ProgramsByNumber& programs, GroupContext& context,
             bool with_keys)
      : message_(message),
        programs_(programs),
        context_(context),
        elements_(message.head()),
        with_keys_(with_keys) {}

  /// Returns the bytes that the last item's element takes, as far as its spec tells.
  std::uint64_t element_bytes() const {
    const std::int64_t bytes = gives_ != nullptr ? fixed_payload_bytes(*gives_) : -1;
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }
  /// Returns the key of the last item.
  ElementKey key() const noexcept {
    return element_key(parts_.data(), parts_.size() * sizeof(std::uint64_t));
  }
  void begin_key(std::initializer_list<std::uint64_t> parts) {
    parts_.clear();
    add_to_key(parts);
  }

  /// Reads an item. `wanted` is the spec that the element must fit because later code relies on it.
  /// It is null if no code does.
  ElementRef get(const Spec* wanted, int depth = 0) {
    StateReader& head = message_.head();
    if (++count_ > kMostItems || depth > kMostNested) malformed("it has too many items");
    charge(sizeof(ElementRef) + sizeof(ElementKey));
    ElementRef item;
    const std::uint64_t program = head.get();
    item.index = head.get();
    item.ordinal = get_fixed(head);
    const std::uint64_t holds = head.get();
    add_to_key({item.index, item.ordinal, holds});
    const Spec* value = wanted;
    bool has_value = program == 0;
    const Node* gathers = nullptr;
    if (program > 0) {
      const ProgramsByNumber::Known& known = programs_.at(program - 1);
      if (known.program == nullptr)
        throw Error(ErrorCode::not_found, "this process has not what the elements are made by");
      if (wanted != nullptr && !fits(*known.gives, *wanted)) malformed("elements of another stage");
      item.program = ProgramPtr(known.program);
      if (depth == 0) gives_ = known.gives;
      add_to_key({known.identity.low, known.identity.high});
      gathers = known.gathers;
      value = known.value;
      has_value = value != nullptr;
      const Source* const source = known.program->source();
      if (source != nullptr && item.index >= source->size()) malformed("a record behind the last");
    }
    switch (static_cast<Holds>(holds)) {
      case Holds::nothing:
        if (has_value) malformed("an item without its value");
        if (gathers != nullptr && !gathers->inputs().empty()) malformed("an item without children");
        return item;
      case Holds::value:
        if (!has_value) malformed("an item with a value too many");
        charge(kBytesOfPayload);
        item.payload = get_value(value);
        return item;
      case Holds::children:
        if (gathers == nullptr) malformed("an item with children too many");
        charge(kBytesOfPayload);
        item.payload = get_children(*gathers, depth);
        return item;
    }
    malformed("what an item holds");
  }

 private:
  Ref<Payload> get_children(const Node& node, int depth) {
    StateReader& head = message_.head();
    const std::uint64_t count = head.get();
    const auto& inputs = node.inputs();
    if (count == 0 || count > kMostItems || inputs.empty()) malformed("the number of children");
    if (inputs.size() > 1 && count != inputs.size()) malformed("the number of children");
    Ref<Payload> payload = Payload::make();
    add_to_key({count});
    for (std::uint64_t i = 0; i < count; ++i)
      payload->children.push_back(get(&inputs[inputs.size() > 1 ? i : 0]->spec(), depth + 1));
    return payload;
  }

  Ref<Payload> get_value(const Spec* wanted) {
    StateReader& head = message_.head();
    const bool ok = head.get() != 0;
    const bool keep = head.get() != 0;
    const auto key = static_cast<std::int64_t>(head.get());
    Ref<Payload> payload = Payload::make();
    payload->keep = keep;
    payload->key = key;
    add_to_key({ok ? 1U : 0U, keep ? 1U : 0U, static_cast<std::uint64_t>(key)});
    if (!ok) {  // failed elements are not shared
      payload->status = get_status(head);
      return payload;
    }
    Provenance origin;
    ElementKey value;
    payload->element =
        elements_.get(head, message_, context_, &origin, with_keys_ ? &value : nullptr);
    add_to_key({value.low, value.high});
    payload->shard = std::make_shared<const std::string>(std::move(origin.shard));
    payload->offset = origin.offset;
    payload->index = static_cast<std::uint64_t>(origin.index);
    if (wanted != nullptr && !wanted->mismatch(payload->element).empty())
      malformed("a value of another stage");
    return payload;
  }

  void add_to_key(std::initializer_list<std::uint64_t> parts) {
    if (with_keys_) parts_.insert(parts_.end(), parts);
  }

  /// Takes bytes of the budget for items, a little in advance.
  void charge(std::size_t bytes) {
    if (bytes > charged_) {
      context_.take(kChargedAtOnce);
      charged_ += kChargedAtOnce;
    }
    charged_ -= bytes;
  }

  static constexpr std::size_t kChargedAtOnce = 16 << 10;
  /// Includes the name of the shard.
  static constexpr std::size_t kBytesOfPayload = sizeof(Payload) + 128;

  Incoming& message_;
  const ProgramsByNumber& programs_;
  GroupContext& context_;
  const ElementReader elements_;
  const bool with_keys_;
  const Spec* gives_ = nullptr;
  std::size_t count_ = 0;
  std::size_t charged_ = 0;           // bytes that were taken and are not used yet
  std::vector<std::uint64_t> parts_;  // of the item's key
};

}  // namespace

void ElementWriter::put(StateWriter& to, const Element& element, const Provenance& where) {
  Layout layout{element.names(), {}};
  for (std::size_t c = 0; c < element.size(); ++c) layout.dtypes.push_back(element[c].dtype());
  auto found = std::ranges::find(layouts_, layout);
  if (found == layouts_.end()) found = layouts_.insert(layouts_.end(), std::move(layout));
  const std::size_t before = values_.size();
  encode_element(element, where, values_);
  to.put(static_cast<std::uint64_t>(found - layouts_.begin()));
  to.put(values_.size() - before);
}

void ElementWriter::put_layouts(StateWriter& to) const {
  to.put(layouts_.size());
  for (const Layout& layout : layouts_) {
    to.put(layout.dtypes.size());
    for (std::size_t c = 0; c < layout.dtypes.size(); ++c) {
      to.put_bytes((*layout.names)[c]);
      to.put(static_cast<std::uint64_t>(layout.dtypes[c]));
    }
  }
}

ElementReader::ElementReader(StateReader& from) {
  const std::uint64_t layouts = from.get();
  if (layouts > kMostLayouts) malformed("the number of layouts");
  for (std::uint64_t i = 0; i < layouts; ++i) {
    std::vector<ComponentSpec> components;
    std::uint64_t count = from.get();
    if (count > kMostComponents) malformed("the number of components");
    for (; count > 0; --count) {
      std::string name(from.get_bytes());
      const std::uint64_t dtype = from.get();
      if (dtype >= static_cast<std::uint64_t>(kDTypeCount)) malformed("a dtype");
      components.push_back({std::move(name), static_cast<DType>(dtype), Shape::unknown_rank()});
    }
    std::vector<std::string> names;
    for (const ComponentSpec& component : components) names.push_back(component.name);
    // Names are kept for ever, so a stranger's are refused.
    if (!names.empty() && Names::known(names) == nullptr) malformed("components that no stage has");
    layouts_.emplace_back(std::move(components));
  }
}

Element ElementReader::get(StateReader& from, Incoming& values, ReadContext& context,
                           Provenance* origin, ElementKey* key) const {
  const std::uint64_t layout = from.get();
  const std::uint64_t bytes = from.get();
  if (layout >= layouts_.size()) malformed("a layout");
  if (bytes > values.left()) malformed("it has fewer values than it says");
  const BufferPtr record = context.allocate(bytes);
  values.take(record->data(), bytes);
  Element element = decode_element(record, bytes, layouts_[layout], layouts_[layout].names());
  if (origin != nullptr) *origin = decode_origin({record->data(), bytes});
  if (key != nullptr) {
    // Interned names are never freed, so their address identifies them.
    const ElementKey record_key = element_key(record->data(), bytes);
    const std::array<std::uint64_t, 3> all{record_key.low, record_key.high,
                                           reinterpret_cast<std::uintptr_t>(element.names())};
    *key = element_key(all.data(), sizeof all);
  }
  return element;
}

void meet_names(const Plan& plan) {
  for (const PlannedStage& stage : plan.stages()) {
    (void)stage.node->spec().names();
    for (const NodePtr& input : stage.node->inputs()) (void)input->spec().names();
  }
}

std::optional<AskBody> encode_items(const SegmentWork& segment, std::size_t stage,
                                    std::span<const ElementRef> items, ProgramNumbers& programs,
                                    std::size_t most) {
  ItemWriter writer(programs, most);
  try {
    for (const ElementRef& item : items)
      if (!writer.put(item)) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // it can't be sent, such as a batch with more rows than its components
  }
  AskBody body = writer.body(segment, stage, items.size());
  if (body.head.size() + body.values.size() > most) return std::nullopt;
  return body;
}

Asked decode_items(Incoming& message, const ProgramsByNumber& programs, const Plan& plan,
                   GroupContext& context, bool with_keys) {
  StateReader& head = message.head();
  const std::vector<PlannedStage>& stages = plan.stages();
  Asked asked;
  asked.stage = head.get();
  asked.rows = head.get() != 0;
  if (asked.stage >= stages.size()) malformed("a stage that the plan has not");
  const PlannedStage& stage = stages[asked.stage];
  if (asked.rows && (!stage.batches || !stage.batches->in_place)) malformed("rows of no batch");
  asked.key = get_fixed(head);
  ItemReader reader(message, programs, context, with_keys);
  const std::uint64_t count = head.get();
  if (count == 0 || count > kMostItems) malformed("the number of items");
  for (std::uint64_t i = 0; i < count; ++i) {
    reader.begin_key({asked.stage, asked.rows ? 1U : 0U, asked.key});
    asked.items.push_back(reader.get(asked.rows ? &stage.batches->element : nullptr));
    if (with_keys) asked.keys.push_back(reader.key());
    if (!asked.rows)
      asked.element_bytes = saturating_sum(asked.element_bytes, reader.element_bytes());
  }
  if (!head.at_end() || message.left() > 0) malformed("bytes follow its end");
  return asked;
}

}  // namespace penstock::remote
