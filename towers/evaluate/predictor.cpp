#include "towers/evaluate/predictor.h"

#include <penstock/device.h>
#include <penstock/error.h>

#include "towers/onednn.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

TrainOptions on_host(int threads) {
  TrainOptions options;
  options.devices = {device({DeviceKind::host, 0})};
  options.threads = threads;
  return completed(std::move(options));
}

}  // namespace

Predictor::Predictor(const ModelMaker& make, const std::string& variables, int threads)
    : options_(on_host(threads)),
      towers_(make, options_, {}),
      stored_(load_stored(towers_.store(), variables)) {}

const Array& Predictor::scores(const Element& batch) {
  set_compute_threads(options_.threads);
  const Batch rows(batch);
  Pass pass;
  pass.valid_rows = rows.rows();
  static_cast<void>(towers_.model(0).forward(rows, pass));
  scores_ = towers_.model(0).scores(pass);
  if (scores_.empty() && rows.rows() > 0)
    throw Error(ErrorCode::invalid_argument, "this model makes no predictions for rows");
  return scores_;
}

}  // namespace penstock::towers
