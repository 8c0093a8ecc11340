// The data for `penstock train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/towers/model_input.h>

namespace penstock::tool {

/// The facts that decide how data are opened.
struct TrainDataOptions {
  std::string label_regex{};                  ///< see ImagesOptions; empty: none
  std::optional<std::int64_t> label_depth{};  ///< see ImagesOptions
  bool hidden = false;                        ///< see ImagesOptions
  /// The components of the model. They decide which columns, features and arrays are read.
  std::vector<towers::TakenComponent> takes{};
  /// Names of components in the model, and in the data.
  std::vector<std::pair<std::string, std::string>> names{};
  std::string weight_column{};           ///< see with_weight_column; empty: none
  bool labels = true;                    ///< false: data without labels get label 0
  std::vector<std::string> na_values{};  ///< see CsvOptions; for tables

  /// Returns the data's name of a component of the model; empty if none was given.
  std::string name_of(const std::string& component) const;
};

/// Opens data by the form of their path:
///
/// - CSV with a header (.csv), or tf.Examples (.tfrecord)
///
/// - arrays (.npy, one for each component of the model, in its order)
///
/// - labelled images: tar shards (.tar), image records (.pnr), or CIFAR-10's binary files (.bin)
///
/// - a pair of IDX files "IMAGES,LABELS" (MNIST)
///
/// - a folder or a pattern of image files
///
/// Throws UsageError or Error.
Dataset open_train_data(const std::string& path, const TrainDataOptions& options);

/// Returns elements with the component names of the model, labels as i64, and the weights of rows.
/// Throws UsageError for unknown names.
Dataset fitted(const Dataset& stored, const TrainDataOptions& options);

/// Opens the tf.Examples of TFRecord files, parsed for the model's components. The first record
/// decides which feature becomes a component: one with its name, or for images and labels one with
/// a name that TensorFlow's datasets use. Bytes are reshaped if the model takes pixels of a fixed
/// size. Throws UsageError that names a missing or unsuitable feature, and lists the features
/// there.
Dataset open_examples(const std::vector<std::string>& paths, const TrainDataOptions& options);

/// Returns the records from A up to B for a `range` "A:B". Either may be missing, and the range may
/// be empty. Throws UsageError.
Dataset records_in(const Dataset& dataset, const std::string& range);

/// Returns a text that distinguishes data without reading much of them: the number of elements, a
/// checksum of the first ones as they are stored, and unless `trusted` one of the contents of files
/// (`contents_digest`).
std::string fingerprint_of(const Dataset& stored, bool trusted);

/// Returns a text that distinguishes graphs: the number of stages in the plan, and their checksum.
std::string graph_of(const Dataset& dataset);

}  // namespace penstock::tool
