// Foreign files that may be in the place where a program wants to create one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/support/files.h"

namespace penstock::test {

/// A kind of foreign file.
struct Stranger {
  std::string name;
  /// Creates it at `path`. `victim`: a file that must stay unchanged.
  std::function<void(const std::string& path, const std::string& victim)> put;
  /// True if it is still there.
  std::function<bool(const std::string& path, const std::string& victim)> stands;
};

/// Returns the kinds that this user can create; only root can create devices.
inline std::vector<Stranger> strangers() {
  namespace fs = std::filesystem;
  const auto is_link = [](const std::string& path, const std::string&) {
    return fs::is_symlink(path);
  };
  std::vector<Stranger> all{
      {"link",
       [](const std::string& path, const std::string& victim) { fs::create_symlink(victim, path); },
       is_link},
      {"dangling link",
       [](const std::string& path, const std::string& victim) {
         fs::create_symlink(victim + ".none", path);
       },
       [](const std::string& path, const std::string& victim) {
         return fs::is_symlink(path) && !fs::exists(victim + ".none");
       }},
      {"pipe",
       [](const std::string& path, const std::string&) {
         if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo failed");
       },
       [](const std::string& path, const std::string&) { return fs::is_fifo(path); }},
      {"folder", [](const std::string& path, const std::string&) { fs::create_directory(path); },
       [](const std::string& path, const std::string&) { return fs::is_directory(path); }},
      {"hard link",
       [](const std::string& path, const std::string& victim) {
         fs::create_hard_link(victim, path);
       },
       [](const std::string& path, const std::string& victim) {
         return fs::equivalent(path, victim);
       }}};
  const TempFolder trial;
  if (::mknod((trial / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    all.push_back(
        {"device",
         [](const std::string& path, const std::string&) {
           if (::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
             throw std::runtime_error("mknod failed");
         },
         [](const std::string& path, const std::string&) { return fs::is_character_file(path); }});
  }
  return all;
}

}  // namespace penstock::test
