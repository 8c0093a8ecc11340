// The public functions of include/penstock/sources.h: each kind of source by name. Here, because a
// Dataset is the engine's; what makes the sources stands in pipeline/sources.
#include <penstock/sources.h>

#include "pipeline/order/node.h"
#include "pipeline/order/source.h"
#include "pipeline/sources/cifar10.h"
#include "pipeline/sources/csv.h"
#include "pipeline/sources/fixed_records.h"
#include "pipeline/sources/generate.h"
#include "pipeline/sources/idx.h"
#include "pipeline/sources/images.h"
#include "pipeline/sources/npy.h"
#include "pipeline/sources/range.h"
#include "pipeline/sources/synthetic.h"
#include "pipeline/sources/tar.h"
#include "pipeline/sources/tensors.h"
#include "pipeline/sources/text_lines.h"
#include "pipeline/sources/tfrecord.h"

namespace penstock {
namespace {

std::vector<std::string> class_names(const Node& node) {
  if (const SourcePtr source = node.source()) return source->class_names();
  for (const NodePtr& input : node.inputs()) {
    std::vector<std::string> names = class_names(*input);
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace

Dataset images(const std::string& folder_or_pattern, ImagesOptions options) {
  return Dataset(make_images_source(folder_or_pattern, options));
}

std::vector<std::string> class_names(const Dataset& dataset) {
  return class_names(*dataset.node());
}

Dataset tar(const Paths& paths, TarOptions options) {
  return Dataset(make_tar_source(paths, options));
}

Dataset tfrecord(const Paths& paths, TFRecordOptions options) {
  return Dataset(make_tfrecord_source(paths, options));
}

Dataset cifar10(const Paths& paths, FileOptions options) {
  return Dataset(make_cifar10_source(paths, options));
}

Dataset idx(const std::string& images_path, const std::string& labels_path, FileOptions options) {
  return Dataset(make_idx_source(images_path, labels_path, options));
}

Dataset csv(const Paths& paths, CsvOptions options) {
  return Dataset(make_csv_source(paths, options));
}

Dataset text_lines(const Paths& paths, FileOptions options) {
  return Dataset(make_text_lines_source(paths, options));
}

Dataset fixed_records(const Paths& paths, std::uint64_t record_bytes, FixedRecordOptions options) {
  return Dataset(make_fixed_records_source(paths, record_bytes, options));
}

Dataset npy(const Paths& paths, FileOptions options) {
  return Dataset(make_npy_source(paths, options));
}

Dataset tensors(Element columns) {
  return Dataset(make_tensors_source(std::move(columns)));
}

Dataset from_element(Element element) {
  return Dataset(make_element_source(std::move(element)));
}

Dataset range(std::int64_t stop) {
  return range(0, stop);
}

Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  return Dataset(make_range_source(start, stop, step));
}

Dataset generate(std::function<Generator()> make, Spec spec, std::string name) {
  return Dataset(make_generate_source(std::move(make), std::move(spec), std::move(name)));
}

Dataset synthetic(SyntheticOptions options) {
  const Dataset records(make_synthetic_source(options));
  const WorkOpPtr cost = make_synthetic_cost_op(options);
  return cost ? records.map_op(cost) : records;
}

}  // namespace penstock
