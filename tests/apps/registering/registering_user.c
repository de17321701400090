// A module that is linked with one copy of registering_like.
int ncclCommAbort(void* comm);

int registering_user_copy(void) {
  const int copy = ncclCommAbort(0);
  __asm__ volatile("");  // no tail call: the library must see this file as its caller
  return copy;
}
