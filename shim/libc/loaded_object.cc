// Reads program headers, dynamic section and hash tables of files that the loader has mapped.
#include "shim/libc/loaded_object.h"

#include <algorithm>

namespace parkade::shim {
namespace {

constexpr ElfW(Versym) kHiddenVersion = 0x8000;  // an old version kept for old binaries

uint32_t GnuHash(std::string_view name) {
  uint32_t h = 5381;
  for (unsigned char c : name) h = h * 33 + c;
  return h;
}

uint32_t SysvHash(std::string_view name) {
  uint32_t h = 0;
  for (unsigned char c : name) {
    h = (h << 4) + c;
    h = (h ^ ((h & 0xf0000000) >> 24)) & 0x0fffffff;
  }
  return h;
}

}  // namespace

std::string_view FileName(const char* path) {
  const std::string_view whole(path);
  return whole.substr(whole.rfind('/') + 1);  // npos + 1 is 0
}

LoadCounts CountLoads() {
  LoadCounts counts{};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<LoadCounts*>(out) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &counts);
  return counts;
}

LoadedObject::LoadedObject(const dl_phdr_info& info)
    : path_(info.dlpi_name != nullptr ? info.dlpi_name : ""), base_(info.dlpi_addr) {
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_DYNAMIC) {
      dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(base_ + segment.p_vaddr);
    } else if (segment.p_type == PT_LOAD) {
      low = std::min(low, base_ + segment.p_vaddr);
      high = std::max(high, base_ + segment.p_vaddr + segment.p_memsz);
    }
  }
  if (low < high) {
    low_ = low;
    size_ = high - low;
  }
  if (dynamic_ == nullptr) return;
  for (const ElfW(Dyn)* d = dynamic_; d->d_tag != DT_NULL; ++d) {
    const void* at = At(d->d_un.d_ptr);
    switch (d->d_tag) {
      case DT_STRTAB:
        strings_ = static_cast<const char*>(at);
        break;
      case DT_SYMTAB:
        symbols_ = static_cast<const ElfW(Sym)*>(at);
        break;
      case DT_VERSYM:
        versions_ = static_cast<const ElfW(Versym)*>(at);
        break;
      case DT_GNU_HASH:
        gnu_hash_ = static_cast<const uint32_t*>(at);
        break;
      case DT_HASH:
        sysv_hash_ = static_cast<const uint32_t*>(at);
        break;
      default:
        break;
    }
  }
}

const void* LoadedObject::At(ElfW(Addr) address) const {
  return reinterpret_cast<const void*>(address < base_ ? base_ + address : address);
}

std::optional<LoadedObject> LoadedObject::ByFileName(std::string_view prefix) {
  std::optional<LoadedObject> found;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (!FileName(object.path()).starts_with(prefix)) return false;
    found = object;
    return true;
  });
  return found;
}

std::optional<LoadedObject> LoadedObject::ByAddress(const void* address) {
  std::optional<LoadedObject> found;
  ForEachLoadedObject([&](const LoadedObject& object) {
    if (!object.Contains(address)) return false;
    found = object;
    return true;
  });
  return found;
}

bool LoadedObject::Matches(uint32_t index, std::string_view symbol) const {
  const ElfW(Sym)& s = symbols_[index];
  const unsigned type = ELF64_ST_TYPE(s.st_info);
  return s.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT) &&
         (versions_ == nullptr || (versions_[index] & kHiddenVersion) == 0) &&
         symbol == strings_ + s.st_name;
}

uint32_t LoadedObject::Index(std::string_view symbol) const {
  if (strings_ == nullptr || symbols_ == nullptr) return 0;
  uint32_t found = 0;  // symbol 0 is the reserved one
  if (gnu_hash_ != nullptr) {
    const uint32_t bucket_count = gnu_hash_[0];
    const uint32_t first = gnu_hash_[1];
    const uint32_t bloom_words = gnu_hash_[2];
    const uint32_t* buckets = gnu_hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chain = buckets + bucket_count;
    const uint32_t hash = GnuHash(symbol);
    uint32_t i = bucket_count == 0 ? 0 : buckets[hash % bucket_count];
    for (; i >= first && i != 0; ++i) {
      const uint32_t entry = chain[i - first];
      if ((entry | 1) == (hash | 1) && Matches(i, symbol)) {
        found = i;
        break;
      }
      if ((entry & 1) != 0) break;  // the last of its bucket
    }
  } else if (sysv_hash_ != nullptr && sysv_hash_[0] != 0) {
    const uint32_t* buckets = sysv_hash_ + 2;
    const uint32_t* chain = buckets + sysv_hash_[0];
    for (uint32_t i = buckets[SysvHash(symbol) % sysv_hash_[0]]; i != 0; i = chain[i]) {
      if (Matches(i, symbol)) {
        found = i;
        break;
      }
    }
  }
  return found;
}

void* LoadedObject::Find(std::string_view symbol) const {
  const uint32_t found = Index(symbol);
  return found == 0 ? nullptr : reinterpret_cast<void*>(base_ + symbols_[found].st_value);
}

void* LoadedObject::FindFunction(std::string_view symbol) const {
  const uint32_t found = Index(symbol);
  const bool is_function = found != 0 && ELF64_ST_TYPE(symbols_[found].st_info) == STT_FUNC;
  return is_function ? reinterpret_cast<void*>(base_ + symbols_[found].st_value) : nullptr;
}

}  // namespace parkade::shim
