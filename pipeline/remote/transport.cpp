#include "pipeline/remote/transport.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>

#include <link.h>

#include <penstock/internal/module.h>

namespace penstock::remote {
namespace {

std::atomic<const WorkerTransport*> other{nullptr};

const WorkerTransport& load() {
  const auto of_this_version = [](void* symbol) {
    return reinterpret_cast<WorkerTransportFn>(symbol)()->version == WorkerTransport::kVersion;
  };
  try {
    return *reinterpret_cast<WorkerTransportFn>(
        module_symbol("libpenstock_cluster.so", kWorkerTransportSymbol, of_this_version))();
  } catch (const Error& error) {
    throw Error(ErrorCode::not_found,
                "this build can't talk to other processes (PENSTOCK_CLUSTER): " + error.cause());
  }
}

/// Finds the program's own note NT_GNU_BUILD_ID, as hexadecimal digits.
int find_build_id(dl_phdr_info* object, std::size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + header.p_vaddr);
    for (const char* const end = at + header.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const value = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        for (std::size_t k = 0; k < note.n_descsz; ++k) {
          std::array<char, 3> digits{};
          std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(value[k]));
          *static_cast<std::string*>(found) += digits.data();
        }
        return 1;
      }
      at = value + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;  // the first object is the program
}

}  // namespace

const WorkerTransport& worker_transport() {
  if (const WorkerTransport* const used = other.load(std::memory_order_acquire)) return *used;
  static const WorkerTransport& module = load();
  return module;
}

void use_worker_transport(const WorkerTransport& transport) noexcept {
  other.store(&transport, std::memory_order_release);
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(&find_build_id, &id);
  return id;
}

}  // namespace penstock::remote
