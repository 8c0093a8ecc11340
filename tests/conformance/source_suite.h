// The common part of the suites over sources: a data set in memory, and sources that read it.
#pragma once

#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/io/memory.h"
#include "pipeline/stage/node.h"
#include "tests/conformance/sources.h"
#include "tests/support/hooked_files.h"

namespace penstock::test {

class SourceSuite : public ::testing::TestWithParam<SourceCase> {
 public:
  static std::string name_of(const ::testing::TestParamInfo<SourceCase>& tested) {
    std::string name;
    for (const char c : tested.param.name) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
    }
    return name;
  }

 protected:
  /// Creates a new data set of `count` records, one of which may be damaged. `hook_` is called
  /// before reads.
  Dataset dataset(std::size_t count, std::size_t bad = kNone) {
    input_ = {};
    input_.bad = bad;
    input_.before = before_;
    for (std::size_t i = 0; i < count; ++i) input_.records.push_back(GetParam().record(i));
    files_ = std::make_shared<MemoryFileSystem>();
    contents_.clear();
    if (GetParam().files) {
      for (const auto& [path, bytes] : GetParam().files(input_.records, bad)) {
        files_->add(path, bytes);
        contents_[path] = bytes;
      }
    }
    return dataset_with(hook_ ? FileSystemPtr(std::make_shared<HookedFiles>(files_, hook_))
                              : FileSystemPtr(files_));
  }
  SourcePtr open(std::size_t count, std::size_t bad = kNone) {
    return dataset(count, bad).node()->source();
  }
  /// Opens the same data set through another file system, in which it may be in a folder.
  SourcePtr open_with(const FileSystemPtr& files, const std::string& folder = {}) {
    return dataset_with(files, folder).node()->source();
  }

  /// Returns the place of each record, as the source or its stream reports it.
  static std::vector<Provenance> locate_all(const Source& source) {
    std::vector<Provenance> places;
    if (const auto size = source.size()) {
      for (std::uint64_t i = 0; i < *size; ++i) places.push_back(source.locate(i));
      return places;
    }
    HeapContext context;
    const std::unique_ptr<RecordStream> stream = source.stream();
    for (ReadItem item; stream->next(item, context); item = {}) places.push_back(stream->locate());
    return places;
  }

  HookedFiles::Hook hook_;
  std::function<void()> before_;
  std::shared_ptr<MemoryFileSystem> files_;
  std::map<std::string, std::string> contents_;  // of files_

 private:
  Dataset dataset_with(const FileSystemPtr& files, const std::string& folder = {}) {
    input_.files = files;
    input_.folder = folder.empty() ? "" : folder + "/";
    input_.paths.clear();
    for (const auto& [path, bytes] : contents_) input_.paths.push_back(input_.folder + path);
    return GetParam().open(input_);
  }

  SourceInput input_;
};

}  // namespace penstock::test
