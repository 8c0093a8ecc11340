// The files that the record's graphs read, made by the tests' own writers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace penstock::test {

/// Makes an empty folder the process's own and the current one, once. Paths in errors and
/// descriptions are then the same in every run.
void enter_folder();

/// Some bytes that say which record they are: "17:" and noise.
std::string text_record(int i);
/// A small JPEG, of another size for each number.
std::string small_jpeg(int i);
/// A gray PNG, not compressed.
std::string small_png(int i);
/// An IDX file of u8.
std::string idx_of(const std::vector<std::uint32_t>& dims, const std::string& data);
/// A .npy file, version 1.
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data);

// Each writes its files when it is called first, and returns a pattern.
std::string pictures();     ///< a folder: ten images in three classes, JPEGs and a PNG
std::string image_tars();   ///< two shards of five images, with labels as `cls`
std::string member_tars();  ///< two shards of samples of two members each
std::string tfrecords();    ///< three shards of eight records
std::string packed_tfrecords(const std::string& wrapper);  ///< the same, "gzip" or "zlib"
std::string examples();                                    ///< twelve messages of tf.Example
std::string packed_pictures(bool coefficients);            ///< image records of `pictures`
std::string tables();                                      ///< two CSV files with headers
std::string file_of(const std::string& name, const std::string& bytes);  ///< any other

}  // namespace penstock::test
