// Reads the relocation tables of loaded files and compares what the loader wrote with the shim.
#include "shim/hooks/escapes.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "shim/hooks/entries.h"
#include "shim/hooks/real_library.h"
#include "shim/libc/late.h"
#include "shim/libc/loaded_object.h"

namespace parkade::shim {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kBindings[] = {R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_64};
#elif defined(__aarch64__)
constexpr uint32_t kBindings[] = {R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_ABS64};
#endif

struct Targets {
  const void* dlsym;  // the C library's own
  const void* dlvsym;
};

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const void* rela = nullptr;
  size_t rela_bytes = 0;
  const void* plt = nullptr;
  size_t plt_bytes = 0;
};

Tables TablesOf(const LoadedObject& object) {
  Tables t;
  for (const ElfW(Dyn)* d = object.dynamic(); d != nullptr && d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_SYMTAB:
        t.symbols = static_cast<const ElfW(Sym)*>(object.At(d->d_un.d_ptr));
        break;
      case DT_STRTAB:
        t.strings = static_cast<const char*>(object.At(d->d_un.d_ptr));
        break;
      case DT_RELA:
        t.rela = object.At(d->d_un.d_ptr);
        break;
      case DT_RELASZ:
        t.rela_bytes = d->d_un.d_val;
        break;
      case DT_JMPREL:
        t.plt = object.At(d->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        t.plt_bytes = d->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return t;
}

// A slot that is not yet bound points into its own file, and is none.
bool IsEscape(const char* symbol, const void* bound, const Targets& targets) {
  if (strcmp(symbol, "dlsym") == 0) return bound == targets.dlsym;
  if (strcmp(symbol, "dlvsym") == 0) return bound == targets.dlvsym;
  return FindEntry(symbol).has_value() && RealLibrary::Contains(bound);
}

const char* FindIn(const LoadedObject& object, const Tables& tables, const void* at, size_t bytes,
                   const Targets& targets) {
  if (at == nullptr) return nullptr;
  const auto* relocations = static_cast<const ElfW(Rela)*>(at);
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) {
    const ElfW(Rela)& r = relocations[i];
    const uint32_t type = uint32_t(ELF64_R_TYPE(r.r_info));
    if (type != kBindings[0] && type != kBindings[1] && type != kBindings[2]) continue;
    const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(r.r_info)];
    const char* name = tables.strings + symbol.st_name;
    const auto* slot = reinterpret_cast<const void* const*>(object.base() + r.r_offset);
    if (IsEscape(name, *slot, targets)) return name;
  }
  return nullptr;
}

// The C library and the driver use their own functions, as they should.
bool MayBindPast(const LoadedObject& object) {
  const std::string_view file = FileName(object.path());
  return !object.Contains(reinterpret_cast<const void*>(&FindEscapes)) &&
         !RealLibrary::Contains(reinterpret_cast<const void*>(object.low())) &&
         !file.starts_with("libc.so") && !file.starts_with("libdl.so") &&
         !file.starts_with("ld-linux") && !file.starts_with("libnvidia-") &&
         !file.starts_with("linux-vdso");
}

bool IsSecondDriver(const LoadedObject& object) {
  return FileName(object.path()).starts_with("libcuda.so") &&
         !RealLibrary::Contains(reinterpret_cast<const void*>(object.low())) &&
         object.FindFunction("cuInit") != nullptr;
}

// Of the last look: where it was said, what the loader had loaded and unloaded, and how long its
// list was.
constinit std::atomic<const LedgerWriter*> said_in{nullptr};
constinit std::atomic<uint64_t> seen_loads{0};
constinit std::atomic<uint64_t> seen_unloads{0};
constinit std::atomic<uint64_t> seen_files{0};

void Warn(void* arg, const char* path, const char* symbol) {
  char text[320];
  if (symbol == nullptr) {
    snprintf(text, sizeof text,
             "%s is a second driver library: calls that go straight to it are not seen", path);
  } else {
    snprintf(text, sizeof text,
             "%s has %s bound past the shim (RTLD_DEEPBIND?): its CUDA calls are not seen", path,
             symbol);
  }
  static_cast<LedgerWriter*>(arg)->AddWarning(text);
}

}  // namespace

uint64_t FindEscapes(void (*report)(void* arg, const char* path, const char* symbol), void* arg,
                     uint64_t skip) {
  const Targets targets{FindInLibc("dlsym"), FindInLibc("dlvsym")};
  uint64_t files = 0;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (++files <= skip) return false;
    if (IsSecondDriver(object)) report(arg, object.path(), nullptr);
    if (!MayBindPast(object)) return false;
    const Tables tables = TablesOf(object);
    if (tables.symbols == nullptr || tables.strings == nullptr) return false;
    const char* symbol = FindIn(object, tables, tables.plt, tables.plt_bytes, targets);
    if (symbol == nullptr) symbol = FindIn(object, tables, tables.rela, tables.rela_bytes, targets);
    if (symbol != nullptr) report(arg, object.path(), symbol);
    return false;
  });
  return files;
}

void WarnOfNewEscapes(LedgerWriter& ledger, const LoadCounts& now) {
  const bool here = said_in.load(std::memory_order_relaxed) == &ledger;
  if (here && seen_loads.load(std::memory_order_relaxed) == now.loads) return;
  // The loader lists files in the order in which they came. After one has gone the list is another.
  const bool same_list = here && seen_unloads.load(std::memory_order_relaxed) == now.unloads;
  const uint64_t skip = same_list ? seen_files.load(std::memory_order_relaxed) : 0;
  seen_files.store(FindEscapes(Warn, &ledger, skip), std::memory_order_relaxed);
  seen_unloads.store(now.unloads, std::memory_order_relaxed);
  seen_loads.store(now.loads, std::memory_order_relaxed);
  said_in.store(&ledger, std::memory_order_relaxed);
}

}  // namespace parkade::shim
