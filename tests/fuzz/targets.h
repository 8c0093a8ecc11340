// Everything that parses bytes of strangers, each behind one function of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::fuzz {

using Bytes = std::span<const std::byte>;

/// The first byte of an input chooses options, and whether checksums are made right before the rest
/// is parsed, so that what lies behind them is reached too.
struct Target {
  const char* name;
  /// Takes any input. What a parser may answer with is dealt with inside; whatever leaves, and
  /// every `require` that fails, is a bug.
  void (*run)(Bytes input);
  /// Inputs to start from, made by the tests' writers.
  std::vector<std::string> (*seeds)();
};

/// Sorted by name.
std::span<const Target> targets();

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
void run_csv(Bytes input);
std::vector<std::string> idx_seeds();
std::vector<std::string> cifar10_seeds();
std::vector<std::string> npy_seeds();
std::vector<std::string> csv_seeds();
// images.cpp
void run_jpeg(Bytes input);
void run_own_jpeg(Bytes input);
void run_png(Bytes input);
std::vector<std::string> jpeg_seeds();
std::vector<std::string> png_seeds();
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
// settings.cpp
void run_toml(Bytes input);
std::vector<std::string> toml_seeds();

}  // namespace penstock::fuzz
