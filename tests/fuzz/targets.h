// All parsers of untrusted bytes, each as one function of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::fuzz {

using Bytes = std::span<const std::byte>;

/// A parser to fuzz. The first byte of an input chooses options. One of them corrects the checksums
/// before the input is parsed, so that fuzzing also reaches the code after the checksums.
struct Target {
  const char* name;
  /// Runs the parser on any input. It handles the permitted errors of the parser. Any exception
  /// that leaves it, and every failed `require`, is a bug.
  void (*run)(Bytes input);
  /// Returns inputs to start from, made by the tests' writers.
  std::vector<std::string> (*seeds)();
};

/// Sorted by name.
std::span<const Target> targets();

// answers.cpp
void run_answer(Bytes input);
std::vector<std::string> answer_seeds();
// workers.cpp
void run_answered(Bytes input);
void run_asked(Bytes input);
std::vector<std::string> answered_seeds();
std::vector<std::string> asked_seeds();
// local.cpp
void run_local(Bytes input);
std::vector<std::string> local_seeds();
// containers.cpp
void run_tfrecord(Bytes input);
void run_example(Bytes input);
void run_tar(Bytes input);
std::vector<std::string> tfrecord_seeds();
std::vector<std::string> example_seeds();
std::vector<std::string> tar_seeds();
// arrays.cpp
void run_idx(Bytes input);
void run_cifar10(Bytes input);
void run_npy(Bytes input);
void run_tokens(Bytes input);
void run_csv(Bytes input);
std::vector<std::string> idx_seeds();
std::vector<std::string> cifar10_seeds();
std::vector<std::string> npy_seeds();
std::vector<std::string> tokens_seeds();
std::vector<std::string> csv_seeds();
// images.cpp
void run_jpeg(Bytes input);
void run_own_jpeg(Bytes input);
void run_png(Bytes input);
std::vector<std::string> jpeg_seeds();
std::vector<std::string> png_seeds();
// device_jpegs.cpp
void run_device_jpeg(Bytes input);
std::vector<std::string> device_jpeg_seeds();
// packed.cpp
void run_image_record(Bytes input);
void run_image_records(Bytes input);
void run_reconstruct(Bytes input);
std::vector<std::string> image_record_seeds();
std::vector<std::string> image_records_seeds();
std::vector<std::string> reconstruct_seeds();
// saved.cpp
void run_index(Bytes input);
void run_state(Bytes input);
std::vector<std::string> index_seeds();
std::vector<std::string> state_seeds();
// trained.cpp
void run_safetensors(Bytes input);
std::vector<std::string> safetensors_seeds();
// wire.cpp, or no_wire.cpp in builds without communication between processes
void run_etcd(Bytes input);
void run_wire(Bytes input);
std::vector<std::string> etcd_seeds();
std::vector<std::string> wire_seeds();
// parameters.cpp, or no_wire.cpp
void run_parameters(Bytes input);
std::vector<std::string> parameters_seeds();
// settings.cpp
void run_toml(Bytes input);
std::vector<std::string> toml_seeds();

}  // namespace penstock::fuzz
