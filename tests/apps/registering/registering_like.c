// Stands in for libibverbs and NCCL where they take memory in: nothing is registered anywhere. Of
// ibv_reg_mr there is an older version too, as in the real library.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct ibv_mr {
  void* at;
  size_t bytes;
};
struct ncclComm {
  void* last;  // given out by the last registration: the same buffer gets the same handle
  int failing;
};

static struct ibv_mr* make(void* at, size_t bytes) {
  if (bytes == 0) {
    errno = EINVAL;
    return NULL;
  }
  struct ibv_mr* mr = malloc(sizeof *mr);
  mr->at = at;
  mr->bytes = bytes;
  return mr;
}

struct ibv_mr* new_reg_mr(void* pd, void* at, size_t bytes, int access) {
  (void)pd, (void)access;
  return make(at, bytes);
}

struct ibv_mr* old_reg_mr(void* pd, void* at, size_t bytes, int access) {
  (void)pd, (void)access;
  return make(at, bytes);
}
__asm__(".symver new_reg_mr, ibv_reg_mr@@IBVERBS_1.1");
__asm__(".symver old_reg_mr, ibv_reg_mr@IBVERBS_1.0");

struct ibv_mr* ibv_reg_mr_iova(void* pd, void* at, size_t bytes, uint64_t iova, int access) {
  (void)pd, (void)iova, (void)access;
  return make(at, bytes);
}

struct ibv_mr* ibv_reg_mr_iova2(void* pd, void* at, size_t bytes, uint64_t iova, unsigned access) {
  (void)pd, (void)iova, (void)access;
  return make(at, bytes);
}

int ibv_rereg_mr(struct ibv_mr* mr, int flags, void* pd, void* at, size_t bytes, int access) {
  (void)pd, (void)access;
  if (bytes == 0) return EINVAL;
  if (flags & 1) mr->at = at, mr->bytes = bytes;
  return 0;
}

int ibv_dereg_mr(struct ibv_mr* mr) {
  if (mr->bytes == 1) return EBUSY;  // one that cannot be deregistered
  free(mr);
  return 0;
}

struct ncclComm* registering_like_comm(void) {
  return calloc(1, sizeof(struct ncclComm));
}
void registering_like_fail(struct ncclComm* comm, int failing) { comm->failing = failing; }

int ncclCommRegister(struct ncclComm* comm, void* at, size_t bytes, void** handle) {
  (void)bytes;
  if (comm->failing) return 3;
  *handle = comm->last = at;
  return 0;
}

int ncclCommDeregister(struct ncclComm* comm, void* handle) {
  (void)handle;
  return comm->failing ? 3 : 0;
}

int ncclCommWindowRegister(struct ncclComm* comm, void* at, size_t bytes, void** window,
                           int flags) {
  (void)at, (void)bytes, (void)window, (void)flags;
  return comm->failing ? 3 : 0;  // as in a group: the window comes later
}

int ncclCommWindowDeregister(struct ncclComm* comm, void* window) {
  (void)window;
  return comm->failing ? 3 : 0;
}

int ncclCommDestroy(struct ncclComm* comm) {
  if (comm->failing) return 3;
  free(comm);
  return 0;
}

// Without a communicator it says which copy of the library it is of.
int ncclCommAbort(struct ncclComm* comm) { return comm == NULL ? COPY : ncclCommDestroy(comm); }
