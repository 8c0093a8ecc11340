// The options structs, member by member: keyword arguments have their names and defaults.
#pragma once

#include "python/bind.h"

namespace penstock::python {

#define PENSTOCK_FIELDS(O, ...)                          \
  template <>                                            \
  struct Fields<O> {                                     \
    using S = O;                                         \
    static constexpr auto all = std::tuple(__VA_ARGS__); \
  }
#define F(name)     \
  Field {           \
#name, &S::name \
  }

// The place of a file or folder.
#define P(name)     \
  PathField {       \
#name, &S::name \
  }

PENSTOCK_FIELDS(ShardOptions, F(contiguous));
PENSTOCK_FIELDS(ShuffleOptions, F(buffer), F(seed), F(reshuffle));
PENSTOCK_FIELDS(InterleaveOptions, F(cycle), F(block));
PENSTOCK_FIELDS(BatchOptions, F(drop_remainder));
PENSTOCK_FIELDS(PaddedBatchOptions, F(shapes), F(values), F(drop_remainder));
PENSTOCK_FIELDS(MixOptions, F(seed), F(stop_on_empty));
PENSTOCK_FIELDS(WindowOptions, F(shift), F(stride), F(drop_remainder));
PENSTOCK_FIELDS(GroupOptions, F(size), F(size_of), F(reduce), F(output), F(name));
PENSTOCK_FIELDS(BucketOptions, F(length), F(name), F(bounds), F(sizes), F(tokens),
                F(pad_to_boundary), F(no_padding), F(drop_remainder), F(towers), F(shapes),
                F(values));
PENSTOCK_FIELDS(PackOptions, F(length), F(open), F(values), F(segment), F(position));
PENSTOCK_FIELDS(ScanOptions, F(name), F(output));
PENSTOCK_FIELDS(ResampleOptions, F(initial), F(seed), F(component), F(name));

PENSTOCK_FIELDS(FileOptions, P(index_folder));
PENSTOCK_FIELDS(ImagesOptions, F(label_regex), F(label_depth), F(hidden), P(index_folder));
PENSTOCK_FIELDS(TarOptions, F(label_regex), F(hidden), P(index_folder));
PENSTOCK_FIELDS(TFRecordOptions, F(compression), F(verify), P(index_folder));
PENSTOCK_FIELDS(CsvOptions, F(header), F(delimiter), F(columns), F(na_values), P(index_folder));
PENSTOCK_FIELDS(FixedRecordOptions, F(header_bytes), F(footer_bytes), P(index_folder));
PENSTOCK_FIELDS(TokenShardsOptions, F(stored), F(dtype), F(keep_remainder), P(index_folder));

PENSTOCK_FIELDS(DecodeOptions, F(orient), F(strict), F(strict_images), F(channels));
PENSTOCK_FIELDS(RandomResizedCropOptions, F(min_scale), F(max_scale), F(min_ratio), F(max_ratio));
PENSTOCK_FIELDS(ColorJitterOptions, F(brightness), F(contrast), F(saturation), F(hue));
PENSTOCK_FIELDS(NormalizeOptions, F(mean), F(deviation), F(dtype), F(layout));

/// The options of a run, and of its workers their addresses.
struct RunArguments : RunOptions {
  std::vector<std::string> addresses{};
};
PENSTOCK_FIELDS(RunArguments, F(seed), F(epochs), F(threads), F(memory_bytes), F(slots),
                F(io_threads), F(close_deadline_ms), F(on_error), F(max_errors), F(max_error_share),
                P(quarantine), F(retries), F(retry_ms), Field{"workers", &S::addresses},
                F(trust_data), F(exact_state));

/// The options of a feed and of its run.
struct FeedArguments : FeedOptions, RunArguments {};
PENSTOCK_FIELDS(FeedArguments, F(mode), F(end), F(in_turn), Field{"slots", &FeedOptions::slots},
                F(ahead), F(device_memory), F(max_bytes), F(watchdog_s), F(seed), F(epochs),
                F(threads), F(memory_bytes), F(io_threads), F(on_error), F(max_errors),
                F(max_error_share), P(quarantine), F(retries), F(retry_ms),
                Field{"workers", &RunArguments::addresses}, F(trust_data));

/// The options of a map, and the form of its function.
struct MapArguments : MapOptions {
  bool batched = false, random = false;
};
PENSTOCK_FIELDS(MapArguments, F(output), F(adds), F(name), F(batched), F(random), F(blocking),
                F(ordered));

#undef F
#undef P
#undef PENSTOCK_FIELDS

/// A column of a CSV file: a name, (name, dtype), or (name, dtype, default).
template <>
struct Given<CsvOptions::Column> {
  using type = std::variant<std::string, std::pair<std::string, std::string>,
                            std::tuple<std::string, std::string, std::string>>;
  static CsvOptions::Column take(const type& given) {
    if (const auto* const name = std::get_if<std::string>(&given))
      return {*name, DType::bytes, std::nullopt};
    if (const auto* const typed = std::get_if<1>(&given))
      return {typed->first, dtype_of_name(typed->second), std::nullopt};
    const auto& [name, dtype, otherwise] = std::get<2>(given);
    return {name, dtype_of_name(dtype), otherwise};
  }
};
/// The components that a map adds, as one spec.
template <>
struct Given<std::vector<ComponentSpec>> {
  using type = std::optional<SpecDict>;
  static std::vector<ComponentSpec> take(const type& given) {
    if (!given) return {};
    const Spec spec = spec_of(*given);
    return {spec.begin(), spec.end()};
  }
  static nb::object show(const std::vector<ComponentSpec>&) { return nb::none(); }
};
/// A feature of an example: name, dtype, shape and, for one that may be missing, its default.
template <>
struct Given<FeatureSpec> {
  using type = nb::tuple;
  static FeatureSpec take(const type& given) {
    if (given.size() < 3 || given.size() > 4)
      throw nb::type_error("a feature is (name, dtype, shape) or (name, dtype, shape, default)");
    FeatureSpec feature{.key = nb::cast<std::string>(given[0]),
                        .dtype = dtype_of(given[1]),
                        .shape = shape_of(given[2])};
    if (given.size() == 4) feature.default_value = tensor_as(given[3], feature.dtype, true);
    return feature;
  }
};
template <>
struct Given<SequenceSpec> {
  using type = nb::tuple;
  static SequenceSpec take(const type& given) {
    if (given.size() != 3)
      throw nb::type_error("a sequence is (name, dtype, shape of a step or None)");
    SequenceSpec sequence{.key = nb::cast<std::string>(given[0]), .dtype = dtype_of(given[1])};
    if (!given[2].is_none()) sequence.step = shape_of(given[2]);
    return sequence;
  }
};

}  // namespace penstock::python
