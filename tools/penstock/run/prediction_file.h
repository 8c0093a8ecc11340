// Files of predictions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tool {

struct PredictionColumns {
  std::vector<std::string> scores;  ///< names
  bool classes = true;  ///< scores are probabilities of classes, and the predicted class is written
  bool keys = false;    ///< rows have keys
};

/// Writes rows in the order of the data to stdout or to a file, which is complete or absent. If the
/// name ends in .npy, the file holds the scores as f32 [rows,n]. Otherwise it is CSV (RFC 4180)
/// with the columns row, key, class, probability, and one for each score. Not synchronised.
class PredictionFile {
 public:
  virtual ~PredictionFile() = default;
  virtual void add(std::int64_t row, std::string_view key, std::span<const float> scores) = 0;
  /// Puts the added rows in their place. Throws Error{unavailable | resource_exhausted} that names
  /// the file.
  virtual void close() = 0;
};
/// Opens a file; stdout if `path` is "-". Throws the errors of `close`.
std::unique_ptr<PredictionFile> open_predictions(const std::string& path,
                                                 const PredictionColumns& columns);

}  // namespace penstock::tool
