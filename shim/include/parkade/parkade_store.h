/* parkade_store.h: optimizer state that lives outside HBM and streams through it. C99 and C++.
 *
 * A store holds segments ("main", "exp_avg", ...) of flat buckets, in files or in host memory. In a
 * step each bucket comes into one of a few slots of device memory, is updated there and goes back;
 * reading ahead and writing behind go on beside the caller's work.
 *
 *   parkade_store_step_begin(s, step, stream);            // reads from now on
 *   while ((r = parkade_store_acquire(s, &b, -1)) == 1) {  // b's memory is ready in stream's order
 *     update(&b);                                         // queue work on b.stream
 *     parkade_store_submit(s, b.bucket);
 *   }
 *   parkade_store_step_end(s);                            // writes go on; _drain waits for them
 *
 * Nothing has to be linked: see parkade.h. In a process without libparkade.so every call says
 * PARKADE_STORE_E_ABSENT and does nothing.
 *
 * Results. 0 and above is success; below, one of the codes. parkade_store_last_error has the
 * sentence. Nothing here ends the process.
 * Threads. A store is for one thread at a time; parkade_store_stats_get and
 * parkade_store_last_error are for any.
 * Context. That which is current in parkade_store_open, whatever is current later; it must outlive
 * the store.
 * Streams. Memory is ready, and is used, in the order of the step's stream. Work on other streams
 * must be joined back into it before a bucket is submitted. Views are recycled afterwards.
 * Callbacks run on the thread that called, in the order of the buckets. In one, any call on its
 * store but the two above says PARKADE_STORE_E_BUSY.
 * Errors of a step stay for as long as it is open; parkade_store_step_abort closes it. Nothing of
 * it written yet: the store is at the step before. Otherwise it is torn, and says
 * PARKADE_STORE_E_TORN from then on. With "lo16" it is torn once a bucket was submitted, since the
 * weights, which are half of the state, have changed.
 * Fork. A child must not use its parent's stores: PARKADE_STORE_E_STATE.
 * Capture. A step cannot be captured: PARKADE_STORE_E_STATE.
 * Pause. A paused process's store moves no bytes; a pause waits for the border of a bucket.
 *
 * Structs begin with struct_size, which the caller sets to sizeof; zero in a field means its
 * default, and so does what an older caller's struct lacks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
  PARKADE_STORE_OK = 0,
  PARKADE_STORE_E_INVAL = -1,        /* an argument is wrong */
  PARKADE_STORE_E_STATE = -2,        /* the call does not fit what went before */
  PARKADE_STORE_E_IO = -3,           /* a disk or file system says so */
  PARKADE_STORE_E_NOSPACE = -4,      /* no room: disk, host or device memory, or the budget */
  PARKADE_STORE_E_CORRUPT = -5,      /* stored bytes are damaged */
  PARKADE_STORE_E_TORN = -6,         /* half old, half new */
  PARKADE_STORE_E_STEP = -7,         /* not the step that comes next */
  PARKADE_STORE_E_LAYOUT = -8,       /* what is kept has another layout */
  PARKADE_STORE_E_CUDA = -9,         /* the driver says so */
  PARKADE_STORE_E_CALLBACK = -10,    /* the callback has returned below 0 */
  PARKADE_STORE_E_NONFINITE = -11,   /* a gradient, or a value to store, is not finite */
  PARKADE_STORE_E_UNSUPPORTED = -12, /* this build or driver cannot */
  PARKADE_STORE_E_TIMEOUT = -13,     /* not yet */
  PARKADE_STORE_E_BUSY = -14,        /* called from a callback, or another owner lives */
  PARKADE_STORE_E_WEIGHTS = -15,     /* lo16: weights were changed outside a step */
  PARKADE_STORE_E_ABSENT = -16       /* there is no libparkade.so */
};

/* Types of weights and gradients. */
enum {
  PARKADE_STORE_NONE = 0,
  PARKADE_STORE_F32 = 1,
  PARKADE_STORE_BF16 = 2,
  PARKADE_STORE_F16 = 3
};

enum {
  PARKADE_STORE_KEPT = 1,      /* open: take over what a store of that name has kept */
  PARKADE_STORE_IN_MEMORY = 2, /* open: tmpfs is no mistake */
  PARKADE_STORE_NEAREST = 4,   /* open: no stochastic rounding */
  PARKADE_STORE_PHASED = 8,    /* open: reads and writes take turns at the disk */
  PARKADE_STORE_MIXED = 16     /* open: never; without either, the first steps try both */
};

enum {
  PARKADE_STORE_INPLACE = 1, /* a bucket is overwritten; a step that fails midway is torn */
  PARKADE_STORE_ROTATE = 2,  /* a bucket's old bytes stay until the new ones are whole */
  PARKADE_STORE_SHADOW = 3   /* until the step is */
};

enum {
  PARKADE_STORE_CONVERT = 1,     /* load: other encodings are converted, to the nearest, and
                                    segments that are not wanted left out */
  PARKADE_STORE_THIS_STEP = 2,   /* load: `step` counts, also when it is 0 */
  PARKADE_STORE_ZERO_MOMENTS = 1 /* import: moments start at zero; the files have none */
};

#define PARKADE_STORE_MOST_SEGMENTS 16
#define PARKADE_STORE_MOST_GROUPS 64
#define PARKADE_STORE_MOST_SLOTS 64

typedef struct parkade_store parkade_store;

typedef struct {
  uint32_t struct_size;
  uint32_t raw_group_bytes; /* "raw" alone: bytes for 32 elements */
  const char* name;
  /* fp32, bf16, bf16-nearest, fp16, lo16 (of "main", beside bf16 weights), raw; q8 and fp8 of
   * moments, the second where the name ends in "_sq". */
  const char* encoding;
} parkade_store_segment;

typedef struct {
  uint32_t struct_size;
  uint32_t axes;    /* of both shapes */
  const char* name; /* the same in every layout; copied */
  const uint64_t* global_shape;
  const uint64_t* local_shape; /* NULL: as global_shape */
  int32_t tp_axis;             /* which axis local_shape cuts; below 0: none */
  uint32_t group;              /* of hyperparameters, below PARKADE_STORE_MOST_GROUPS */
  uint64_t tp_offset;
  uint64_t flat_begin, flat_end; /* of the local tensor, this rank's; both 0: all of it */
  uint64_t user_tag;
  /* Device addresses of the element flat_begin, and their types. NULL: none, or set later. A
   * weight is written by every submit, from "main". */
  void* weight;
  void* gradient;
  uint32_t weight_type, gradient_type;
} parkade_store_entry;

typedef struct {
  uint32_t struct_size;
  uint32_t flags;
  const char* name;               /* of the store, one owner at a time in a directory; 1 to 31
                                     letters, digits and _ - . : */
  const char* const* directories; /* absolute; none: all in host memory */
  uint32_t directory_count;
  uint32_t slots;           /* 0: 3 */
  uint64_t bucket_elements; /* 0: a 32nd of all, 16 Mi to 200 M */
  uint64_t device_budget;   /* 0: none; else bytes of HBM, by which slots and buckets are chosen */
  uint64_t staging_bytes;   /* 0: 64 MiB; pinned host memory that bytes pass through */
  uint64_t chunk_bytes;     /* 0: 4 MiB; of a request to the disk */
  uint64_t host_bytes;      /* buckets are kept in host memory up to this */
  uint64_t seed;            /* of stochastic rounding */
  uint32_t redundancy;      /* 0: PARKADE_STORE_INPLACE */
  uint32_t segment_count;   /* 0: main, exp_avg, exp_avg_sq in fp32 */
  const parkade_store_segment* segments;
} parkade_store_options;

/* A part of an entry in a bucket. */
typedef struct {
  uint32_t entry, group;
  uint64_t user_tag;
  uint64_t param_begin; /* in the local tensor */
  uint64_t elements;
  uint64_t offset; /* in each segment of the bucket, in elements */
} parkade_store_piece;

typedef struct {
  uint32_t struct_size;
  uint32_t bucket, bucket_count;
  uint32_t piece_count;
  uint64_t step;     /* that is being made */
  uint64_t elements; /* of each segment, with padding between pieces that is not to be touched */
  const parkade_store_piece* pieces;
  void* stream; /* a CUstream */
  /* Device memory, fp32 whatever is stored; of "raw" the stored bytes. */
  void* segments[PARKADE_STORE_MOST_SEGMENTS];
  uint32_t segment_count;
  int32_t fills; /* 1: the first segment is undefined, and to be filled; there is no other */
} parkade_store_bucket;

typedef int (*parkade_store_fn)(const parkade_store_bucket* bucket, void* user);

/* One group's hyperparameters in one step. */
typedef struct {
  uint32_t struct_size;
  uint32_t l2; /* 1: weight_decay is added to the gradient (Adam); 0: decoupled (AdamW) */
  double lr, beta1, beta2, eps, weight_decay;
  uint64_t step; /* of the bias correction; 0: the store's. UINT64_MAX: no bias correction */
} parkade_store_adam;

typedef struct {
  uint32_t struct_size;
  uint32_t slots, buckets;
  uint32_t open;      /* a step is */
  uint64_t committed; /* the last step that is whole; UINT64_MAX: the store is not filled */
  uint64_t bucket_elements;
  uint64_t read_bytes, written_bytes; /* of files, in all */
  uint64_t waited_ns;                 /* for buckets, by the caller */
  uint64_t device_bytes, host_bytes, file_bytes;
} parkade_store_stats;

typedef struct {
  uint32_t struct_size;
  uint32_t rank, ranks;  /* of those that save this step; ranks 0: 1 */
  uint32_t generations;  /* complete checkpoints to leave in the directory; 0: all */
  const char* directory; /* absolute, there already, the same for all ranks */
  uint64_t set;          /* the same for all ranks of this save and no other save's: a random
                            number that one of them has drawn */
  const void* user;      /* bytes that go into the checkpoint, such as hyperparameters; copied */
  uint64_t user_bytes;
} parkade_store_save_options;

typedef struct {
  uint32_t struct_size;
  uint32_t flags;
  const char* directory; /* absolute */
  uint64_t step;         /* 0: of the newest complete checkpoint */
} parkade_store_load_options;

#ifdef PARKADE_IMPLEMENTATION
#define PARKADE_STORE_CALL(name, parameters, arguments) int name parameters;
#ifdef __cplusplus
extern "C" {
#endif
#else
#define PARKADE_STORE_CALL(name, parameters, arguments)                   \
  static inline int name parameters {                                     \
    static void* known;                                                   \
    void* const found = parkade_find(&known, #name);                      \
    return found != 0 ? (__extension__(int(*) parameters) found)arguments \
                      : (int)PARKADE_STORE_E_ABSENT;                      \
  }
#endif

/* Opens a store of these entries for the current context. New, it is not filled. Kept, it is at the
 * step at which it was left; what is torn or between two steps is refused with its buckets
 * (E_TORN), what another layout has made too (E_LAYOUT). *store is NULL on an error, whose sentence
 * is parkade_store_last_error's of NULL on this thread. */
PARKADE_STORE_CALL(parkade_store_open,
                   (const parkade_store_options* options, const parkade_store_entry* entries,
                    size_t entry_count, parkade_store** store),
                   (options, entries, entry_count, store))

/* From now on the entry's tensors are there; NULL and PARKADE_STORE_NONE: none. Not while a bucket
 * is held. */
PARKADE_STORE_CALL(parkade_store_set_tensors,
                   (parkade_store * store, uint32_t entry, void* weight, uint32_t weight_type,
                    void* gradient, uint32_t gradient_type),
                   (store, entry, weight, weight_type, gradient, gradient_type))

/* Fills the first segment bucket by bucket, two at most in HBM; the others become zero. The store
 * is then at step `step`. `fill` NULL: with the weights, widened. Waits until all is written. */
PARKADE_STORE_CALL(parkade_store_fill,
                   (parkade_store * store, uint64_t step, void* stream, parkade_store_fn fill,
                    void* user),
                   (store, step, stream, fill, user))

/* Begins step `step`, the one after the last, and reading; gradients need not be ready before the
 * first acquire. */
PARKADE_STORE_CALL(parkade_store_step_begin, (parkade_store * store, uint64_t step, void* stream),
                   (store, step, stream))

/* 1: `bucket` is the next one, until it is submitted; 0: there is no other. `timeout_ms` below 0:
 * no limit; E_TIMEOUT. As many as there are slots can be held. */
PARKADE_STORE_CALL(parkade_store_acquire,
                   (parkade_store * store, parkade_store_bucket* bucket, int timeout_ms),
                   (store, bucket, timeout_ms))

/* All work on the bucket has been queued: its views become its values, and main its weights. */
PARKADE_STORE_CALL(parkade_store_submit, (parkade_store * store, uint32_t bucket), (store, bucket))

/* The bucket was only looked at: waits for the stream, and gives it back as it was. The step can
 * then but be aborted. */
PARKADE_STORE_CALL(parkade_store_release, (parkade_store * store, uint32_t bucket), (store, bucket))

/* Every bucket was submitted, else E_STATE. Weights are ready in the stream's order; writes go on.
 */
PARKADE_STORE_CALL(parkade_store_step_end, (parkade_store * store), (store))

/* Gives the open step up, and waits for the stream's work. OK, or E_TORN. */
PARKADE_STORE_CALL(parkade_store_step_abort, (parkade_store * store), (store))

/* A whole step; what the callback returns below 0 aborts it (E_CALLBACK). A step that has been
 * begun is gone on with. */
PARKADE_STORE_CALL(parkade_store_step_run,
                   (parkade_store * store, uint64_t step, void* stream, parkade_store_fn update,
                    void* user),
                   (store, step, stream, update, user))

/* A whole step of Adam or AdamW by one kernel a bucket; every entry needs a gradient, and has
 * groups[group]. Gradients are multiplied by `gradient_factor` (one over the loss scale, times the
 * clip factor). `skip_nonfinite`: gradients are looked at first, and with one that is not finite
 * nothing happens but E_NONFINITE; that waits for the stream. In binary32, each operation rounded:
 *   g = gradient * factor (+ l2 * main)         m = beta1 * m + (1 - beta1) * g
 *   v = beta2 * v + (1 - beta2) * (g * g)
 *   main = main * (1 - lr * wd) - lr / (1 - beta1^t) * (m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) +
 * eps)) A step that has been begun is gone on with. */
PARKADE_STORE_CALL(parkade_store_step_adam,
                   (parkade_store * store, uint64_t step, void* stream,
                    const parkade_store_adam* groups, uint32_t group_count, float gradient_factor,
                    int skip_nonfinite),
                   (store, step, stream, groups, group_count, gradient_factor, skip_nonfinite))

/* Waits until the last step's bytes are where they belong. */
PARKADE_STORE_CALL(parkade_store_drain, (parkade_store * store, int timeout_ms),
                   (store, timeout_ms))

/* Begins to save the last step as a checkpoint (docs/store-format.md), beside the steps that
 * follow: each waits for a bucket that has not been taken yet, which is a copy at most, and nothing
 * where the file system makes clones. Waits until the last step is written, and for `stream`, on
 * which the weights are ready. One save at a time (E_STATE). With "lo16" weights stay where
 * they are until it ends. */
PARKADE_STORE_CALL(parkade_store_save,
                   (parkade_store * store, const parkade_store_save_options* options, void* stream),
                   (store, options, stream))

/* Waits for the save. 1: the checkpoint is complete. 0: this rank's part is whole and on the disk,
 * and another's is missing yet. E_TIMEOUT: it goes on. After an error there is no checkpoint of
 * that step. `timeout_ms` below 0: no limit. */
PARKADE_STORE_CALL(parkade_store_save_wait, (parkade_store * store, int timeout_ms),
                   (store, timeout_ms))

/* Loads a checkpoint into a store that has not been filled, whatever ranks and bucket size it was
 * saved with, and its weights, when `stream` is done with them. Everything is checked before a byte
 * is touched: E_CORRUPT, E_STATE and E_LAYOUT name the file or the parameter. The seed is the
 * store's own: give parkade_store_open that of the run that is gone on with. */
PARKADE_STORE_CALL(parkade_store_load,
                   (parkade_store * store, const parkade_store_load_options* options, void* stream),
                   (store, options, stream))

/* Likewise whole tensors of safetensors files: NAME is main, NAME.SEGMENT the others, and the
 * metadata's "step" the step, or 0 where moments start at zero. */
PARKADE_STORE_CALL(parkade_store_import,
                   (parkade_store * store, const char* const* files, size_t file_count,
                    uint32_t flags, void* stream),
                   (store, files, file_count, flags, stream))

PARKADE_STORE_CALL(parkade_store_stats_get, (parkade_store * store, parkade_store_stats* stats),
                   (store, stats))

/* The sentence of the last call that failed; NULL: of this thread's parkade_store_open. Cut at
 * `bytes`, NUL-terminated. */
PARKADE_STORE_CALL(parkade_store_last_error, (parkade_store * store, char* text, size_t bytes),
                   (store, text, bytes))

/* Gives an open step up, waits for the last bytes and for a save, and removes the files, unless
 * `keep` is 1 and the store is whole and all on disk (E_STATE otherwise, and it is closed). The
 * handle is gone. */
PARKADE_STORE_CALL(parkade_store_close, (parkade_store * store, int keep), (store, keep))

#ifdef PARKADE_IMPLEMENTATION
#ifdef __cplusplus
}
#endif
#endif
#undef PARKADE_STORE_CALL
