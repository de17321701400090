// What libstdc++ would bring in for exceptions and operator new, without either: its own versions
// need an unwinder and newer glibc than the shim may ask for.
//
// Hidden by exports.map: the process keeps its own operator new.
#include <cstdlib>
#include <new>

namespace {

// Host memory is out, or our own code broke a container's rule: there is no way on, and a trap
// leaves the place in the core file.
[[noreturn]] void Trap() { __builtin_trap(); }

void* Allocate(size_t bytes, size_t alignment) {
  if (bytes == 0) bytes = 1;
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return malloc(bytes);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* AllocateOrTrap(size_t bytes, size_t alignment) {
  void* memory = Allocate(bytes, alignment);
  if (memory == nullptr) Trap();
  return memory;
}

}  // namespace

namespace std {

const nothrow_t nothrow{};

void __throw_bad_alloc() { Trap(); }
void __throw_bad_array_new_length() { Trap(); }
void __throw_bad_function_call() { Trap(); }
void __throw_bad_optional_access() { Trap(); }
void __throw_invalid_argument(const char*) { Trap(); }
void __throw_length_error(const char*) { Trap(); }
void __throw_logic_error(const char*) { Trap(); }
void __throw_out_of_range(const char*) { Trap(); }
void __throw_out_of_range_fmt(const char*, ...) { Trap(); }
void __throw_system_error(int) { Trap(); }

}  // namespace std

void* operator new(size_t bytes) { return AllocateOrTrap(bytes, 0); }
void* operator new[](size_t bytes) { return AllocateOrTrap(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a) { return AllocateOrTrap(bytes, size_t(a)); }
void* operator new[](size_t bytes, std::align_val_t a) { return AllocateOrTrap(bytes, size_t(a)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 0); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 0); }

void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }

// A deleted destructor's slot in a table of virtual functions.
extern "C" void __cxa_pure_virtual() { Trap(); }
