// What libstdc++ would bring in for exceptions and operator new, without either: its own versions
// need an unwinder and newer glibc than the shim may ask for.
//
// Hidden by exports.map: the process keeps its own operator new.
#include <unwind.h>

#include <cstdlib>
#include <new>
#include <typeinfo>

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

extern "C" {

// An abstract class's empty slot.
void __cxa_pure_virtual() { Trap(); }

// What code in libstdc++'s archive names for exceptions that nothing here can throw.
void* __cxa_allocate_exception(size_t) noexcept { Trap(); }
void __cxa_free_exception(void*) noexcept { Trap(); }
void __cxa_throw(void*, std::type_info*, void (*)(void*)) { Trap(); }
void __cxa_rethrow() { Trap(); }
void* __cxa_begin_catch(void*) noexcept { Trap(); }
void __cxa_end_catch() { Trap(); }
void _Unwind_Resume(_Unwind_Exception*) { Trap(); }

// Asked by the process's own unwinder when it passes through, as pthread_cancel does: nothing of
// ours needs to be undone on the way.
_Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class,
                                         _Unwind_Exception*, _Unwind_Context*) {
  return _URC_CONTINUE_UNWIND;
}
}
