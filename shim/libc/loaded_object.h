// LoadedObject: one ELF file that is mapped into this process, read where the loader put it.
//
// Needs neither dlsym nor dlopen (the shim exports dlsym itself, and glibc before 2.34 keeps both
// in libdl) and leaves dlerror alone.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace parkade::shim {

class LoadedObject {
 public:
  // Takes what dl_iterate_phdr says of one object; valid while the object stays loaded.
  explicit LoadedObject(const dl_phdr_info& info);

  // The first object, in load order, whose file name (after the last '/') begins with `prefix`.
  // Any thread; takes the loader's list lock for the walk.
  static std::optional<LoadedObject> ByFileName(std::string_view prefix);
  // The object in whose mapped segments `address` lies.
  static std::optional<LoadedObject> ByAddress(const void* address);

  // The address of a function or object that this file exports under its default version; null
  // when there is none. Symbols that are resolved by a function (IFUNC) count as absent.
  void* Find(std::string_view symbol) const;
  // The same for functions alone.
  void* FindFunction(std::string_view symbol) const;

  bool Contains(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - low_ < size_;
  }

  const char* path() const { return path_; }  // as the loader knows it; empty for the program
  uintptr_t low() const { return low_; }
  uintptr_t size() const { return size_; }
  uintptr_t base() const { return base_; }
  const ElfW(Dyn) * dynamic() const { return dynamic_; }

  // An address out of the dynamic section: most loaders have added the base, some leave it off.
  const void* At(ElfW(Addr) address) const;

 private:
  uint32_t Index(std::string_view symbol) const;  // 0: none
  bool Matches(uint32_t index, std::string_view symbol) const;

  const char* path_;
  uintptr_t base_;
  uintptr_t low_ = 0;
  uintptr_t size_ = 0;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const ElfW(Versym) * versions_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* sysv_hash_ = nullptr;
};

// Calls `visit` with every loaded object in load order until it returns true; true when it did.
template <typename Visit>
bool ForEachLoadedObject(Visit visit) {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, size_t, void* arg) -> int {
               return (*static_cast<Visit*>(arg))(LoadedObject(*info)) ? 1 : 0;
             },
             &visit) != 0;
}

// How many files the loader has loaded and unloaded so far in this process. Any thread.
struct LoadCounts {
  uint64_t loads;
  uint64_t unloads;
};
LoadCounts CountLoads();

// The part of a path after its last '/'.
std::string_view FileName(const char* path);

}  // namespace parkade::shim
