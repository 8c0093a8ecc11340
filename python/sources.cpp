// Sources, and ops on their records.
#include "python/fields.h"

namespace penstock::python {
namespace {

Dataset generate(const nb::callable& make, const SpecDict& given, std::string name) {
  const Spec spec = spec_of(given);
  return penstock::generate(
      [make = Function(make), spec] {
        const Kept iterator = make([] { return nb::make_tuple(); },
                                   [](nb::handle made) { return keep(nb::iter(made)); });
        const Function::Locked locked;
        const Function next(nb::module_::import_("penstock._errors").attr("one_of"));
        return Generator([iterator, next, spec](Element& out) {
          return next([&] { return nb::make_tuple(nb::handle(iterator.get())); },
                      [&](nb::handle one) {
                        if (nb::len(one) == 0) return false;
                        out = element_of(one[0], true, &spec);
                        return true;
                      });
        });
      },
      spec, std::move(name));
}

/// Features, with or without the names of their components.
using Features = std::variant<std::vector<nb::tuple>, nb::typed<nb::mapping, nb::str, nb::object>>;
std::vector<FeatureSpec> features_of(const Features& given) {
  if (const auto* const list = std::get_if<0>(&given))
    return Given<std::vector<FeatureSpec>>::take(*list);
  std::vector<FeatureSpec> all;
  for (const nb::handle component : std::get<1>(given)) {
    const nb::object feature = std::get<1>(given)[component];
    all.push_back(Given<FeatureSpec>::take(nb::tuple(feature)));
    all.back().component = nb::cast<std::string>(component);
  }
  return all;
}

using Path = std::filesystem::path;

Dataset images_at(const Path& folder, const ImagesOptions& options) {
  return images(folder.string(), options);
}
Dataset idx_at(const Path& images_path, const Path& labels_path, const FileOptions& options) {
  return idx(images_path.string(), labels_path.string(), options);
}

}  // namespace

void bind_sources(nb::module_& m) {
  def(m, "images", images_at, doc("make_images_source"), "folder_or_pattern"_a);
  def(m, "tar", tar, doc("make_tar_source"), "paths"_a);
  def(m, "tfrecord", tfrecord, doc("make_tfrecord_source"), "paths"_a);
  def(m, "image_records", image_records, doc("image_records"), "paths"_a);
  def(m, "cifar10", cifar10, doc("make_cifar10_source"), "paths"_a);
  def(m, "idx", idx_at, doc("make_idx_source"), "images_path"_a, "labels_path"_a = "");
  def(m, "csv", csv, doc("make_csv_source"), "paths"_a);
  def(m, "text_lines", text_lines, doc("make_text_lines_source"), "paths"_a);
  def(m, "fixed_records", fixed_records, doc("make_fixed_records_source"), "paths"_a,
      "record_bytes"_a);
  def(m, "token_shards", token_shards, doc("make_token_shards_source"), "paths"_a, "window"_a);
  def(m, "npy", npy, doc("make_npy_source"), "paths"_a);
  def(m, "tensors", tensors, doc("make_tensors_source"), "columns"_a);
  def(m, "from_element", from_element, doc("make_element_source"), "element"_a);
  def(m, "range", static_cast<Dataset (*)(std::int64_t)>(range), doc("range"), "stop"_a);
  def(m, "range", static_cast<Dataset (*)(std::int64_t, std::int64_t, std::int64_t)>(range),
      doc("make_range_source"), "start"_a, "stop"_a, "step"_a = 1);
  m.def("generate", generate, "make"_a, "spec"_a, "name"_a = "generate",
        doc("make_generate_source"));
  m.def(
      "synthetic",
      [](const std::string& description) { return synthetic(parse_synthetic(description)); },
      "description"_a = "", doc("SyntheticOptions"));

  nb::class_<Op>(m, "WorkOp", doc("WorkOp"));
  m.def(
      "parse_example",
      [](const Features& features, std::string component) {
        return Op{parse_example(features_of(features), std::move(component))};
      },
      "features"_a, "component"_a = "record", doc("parse_example"));
  m.def(
      "parse_sequence_example",
      [](const Features& context, std::vector<nb::tuple> sequences, std::string component) {
        return Op{parse_sequence_example(
            features_of(context), Given<std::vector<SequenceSpec>>::take(std::move(sequences)),
            std::move(component))};
      },
      "context"_a, "sequences"_a, "component"_a = "record", doc("parse_sequence_example"));

  nb::class_<ImageOps> type(m, "ImageOps", doc("ImageOps"));
  def(type, "random_resized_crop",
      static_cast<ImageOps (ImageOps::*)(int, RandomResizedCropOptions) const>(
          &ImageOps::random_resized_crop),
      "size"_a);
  def(type, "random_resized_crop#2",
      static_cast<ImageOps (ImageOps::*)(int, int, RandomResizedCropOptions) const>(
          &ImageOps::random_resized_crop),
      "height"_a, "width"_a);
  def(type, "resize", static_cast<ImageOps (ImageOps::*)(int) const>(&ImageOps::resize), "size"_a);
  def(type, "resize#2", static_cast<ImageOps (ImageOps::*)(int, int) const>(&ImageOps::resize),
      "height"_a, "width"_a);
  def(type, "resize_short", &ImageOps::resize_short, "size"_a);
  def(type, "center_crop", static_cast<ImageOps (ImageOps::*)(int) const>(&ImageOps::center_crop),
      "size"_a);
  def(type, "center_crop#2",
      static_cast<ImageOps (ImageOps::*)(int, int) const>(&ImageOps::center_crop), "height"_a,
      "width"_a);
  def(type, "crop", &ImageOps::crop, "top"_a, "left"_a, "height"_a, "width"_a);
  def(type, "random_pad_crop", &ImageOps::random_pad_crop, "height"_a, "width"_a, "padding"_a);
  def(type, "random_flip", &ImageOps::random_flip, "probability"_a = 0.5);
  def(type, "color_jitter", &ImageOps::color_jitter);
  def(type, "normalize", &ImageOps::normalize);
  def(type, "cast", &ImageOps::cast, "dtype"_a, "layout"_a = "chw");
  def(m, "decode_image", decode_image, doc("decode_image"), "component"_a = "image");
  def(m, "image_ops", image_ops, doc("image_ops"), "component"_a = "image");
}

}  // namespace penstock::python
