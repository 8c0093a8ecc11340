#include <cstdio>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>
#include <dlfcn.h>

#include "tests/storm/victim.h"

namespace penstock::storm {
namespace {

struct Frame {
  std::string library;   // "libtbb.so.12"
  std::string function;  // where it is exported
  std::size_t offset = 0;
};

Frame frame_at(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  Frame frame;
  frame.library = info.dli_fname;
  frame.library.erase(0, frame.library.rfind('/') + 1);
  frame.offset =
      static_cast<std::size_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase));
  if (info.dli_sname != nullptr) {
    int failed = 0;
    const std::unique_ptr<char, decltype(&std::free)> plain(
        abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed), std::free);
    frame.function = plain ? plain.get() : info.dli_sname;
  }
  return frame;
}

}  // namespace

std::string Stack::text() const {
  std::string text;
  for (int i = 0; i < size; ++i) {
    const Frame frame = frame_at(frames[static_cast<std::size_t>(i)]);
    char place[32];
    std::snprintf(place, sizeof(place), "+0x%zx ", frame.offset);
    text += "    " + frame.library + place + frame.function.substr(0, 120) + "\n";
  }
  return text;
}

std::string Stack::library_at_fault() const {
  for (int i = 0; i < size; ++i) {
    const Frame frame = frame_at(frames[static_cast<std::size_t>(i)]);
    // No memory for the exception itself, nor any left of what libstdc++ keeps for that.
    if (frame.function == "__cxa_allocate_exception")
      return "libstdc++ has no memory for an exception";
    // A thread's first use of a thread_local object that has a destructor.
    if (frame.function == "__cxa_thread_atexit_impl")
      return "glibc has no memory to note a thread_local's destructor";
    // It makes a kernel for each kind of product once, and uses it unasked.
    if (frame.library.starts_with("libgomp")) return "libgomp has no memory for its threads";
    if (frame.library.starts_with("libdnnl")) return "oneDNN uses a kernel that it could not make";
    if (frame.function.find("penstock") != std::string::npos) return "";
  }
  return "";
}

}  // namespace penstock::storm
