// The files that the record's graphs read, written by the tests' own writers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace penstock::test {

/// Creates an empty folder for this process and makes it the current one, once. Paths in errors and
/// descriptions are then the same in every run.
void enter_folder();

/// Returns bytes that identify the record: "17:" and noise.
std::string text_record(int i);
/// Returns a small JPEG, with a different size for each number.
std::string small_jpeg(int i);
/// Returns a gray PNG without compression.
std::string small_png(int i);
/// Returns an IDX file of u8.
std::string idx_of(const std::vector<std::uint32_t>& dims, const std::string& data);
/// Returns a .npy file, version 1.
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data);

// Each of these writes its files at the first call, and returns a pattern.
std::string pictures();     ///< a folder: ten images in three classes, JPEGs and a PNG
std::string image_tars();   ///< two shards of five images, with labels as `cls`
std::string member_tars();  ///< two shards of samples of two members each
std::string tfrecords();    ///< three shards of eight records
/// The same, compressed as "gzip" or "zlib".
std::string packed_tfrecords(const std::string& wrapper);
std::string examples();                          ///< twelve tf.Example messages
std::string packed_pictures(bool coefficients);  ///< image records of `pictures`
std::string tables();                            ///< two CSV files with headers
std::string file_of(const std::string& name, const std::string& bytes);  ///< any other file

}  // namespace penstock::test
