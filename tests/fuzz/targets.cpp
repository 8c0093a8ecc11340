#include "tests/fuzz/targets.h"

#include <array>

namespace penstock::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kTargets = {
      Target{"answer", run_answer, answer_seeds},
      Target{"answered", run_answered, answered_seeds},
      Target{"asked", run_asked, asked_seeds},
      Target{"cifar10", run_cifar10, cifar10_seeds},
      Target{"csv", run_csv, csv_seeds},
      Target{"device_jpeg", run_device_jpeg, device_jpeg_seeds},
      Target{"etcd", run_etcd, etcd_seeds},
      Target{"example", run_example, example_seeds},
      Target{"idx", run_idx, idx_seeds},
      Target{"image_record", run_image_record, image_record_seeds},
      Target{"image_records", run_image_records, image_records_seeds},
      Target{"index", run_index, index_seeds},
      Target{"jpeg", run_jpeg, jpeg_seeds},
      Target{"local", run_local, local_seeds},
      Target{"npy", run_npy, npy_seeds},
      Target{"own_jpeg", run_own_jpeg, jpeg_seeds},
      Target{"parameters", run_parameters, parameters_seeds},
      Target{"png", run_png, png_seeds},
      Target{"reconstruct", run_reconstruct, reconstruct_seeds},
      Target{"safetensors", run_safetensors, safetensors_seeds},
      Target{"state", run_state, state_seeds},
      Target{"tar", run_tar, tar_seeds},
      Target{"tfrecord", run_tfrecord, tfrecord_seeds},
      Target{"tokens", run_tokens, tokens_seeds},
      Target{"toml", run_toml, toml_seeds},
      Target{"wire", run_wire, wire_seeds},
  };
  return kTargets;
}

}  // namespace penstock::fuzz
