/* splitq: exact attention, forward and backward. The C interface; splitq.hpp says what everything means.
 *
 *   splitq_tensor q = SPLITQ_TENSOR_INIT;
 *   q.data = data; q.dtype = SPLITQ_FP32; q.rank = 4; ... shape, strides in elements
 *   splitq_options options = SPLITQ_OPTIONS_INIT;
 *   options.causal = 1;
 *   splitq_forward_tensors t = SPLITQ_FORWARD_TENSORS_INIT;
 *   t.q = &q; t.k = &k; t.v = &v; t.out = &out;
 *   if (splitq_forward(&t, &options, NULL) != SPLITQ_OK) puts(splitq_last_error());
 *
 * Every struct begins with its size, set by its _INIT. A program compiled against an older header may use a newer
 * library: members that it doesn't know keep their defaults. One compiled against a newer header may use an older
 * library as long as it leaves the members that this doesn't know at 0; otherwise the call is refused.
 * A pointer to a tensor may be NULL: not given. Every function is thread-safe and throws nothing. */
#ifndef SPLITQ_SPLITQ_H
#define SPLITQ_SPLITQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPLITQ_MAX_RANK 4

typedef int32_t splitq_status;
enum {
  SPLITQ_OK = 0,
  SPLITQ_INVALID_ARGUMENT = 1,
  SPLITQ_UNSUPPORTED = 2,
  SPLITQ_OUT_OF_MEMORY = 3,
  SPLITQ_INTERNAL = 4
};

typedef int32_t splitq_dtype;
enum { SPLITQ_FP32 = 0, SPLITQ_FP16 = 1, SPLITQ_BF16 = 2, SPLITQ_INT32 = 3, SPLITQ_INT64 = 4, SPLITQ_BOOL = 5 };

typedef int32_t splitq_device_kind;
enum { SPLITQ_DEVICE_AUTO = 0, SPLITQ_DEVICE_CPU = 1, SPLITQ_DEVICE_CUDA = 2, SPLITQ_DEVICE_EMULATOR = 3 };

typedef int32_t splitq_rescale; /* when the output is divided by the row sum */
enum { SPLITQ_RESCALE_AT_END = 0, SPLITQ_RESCALE_EVERY_STEP = 1 };

typedef int32_t splitq_parallel; /* what runs in parallel */
enum { SPLITQ_PARALLEL_SEQUENCE = 0, SPLITQ_PARALLEL_BATCH_HEADS = 1 };

/* Memory that the caller owns. Inputs are never written. */
typedef struct splitq_tensor {
  size_t struct_size;
  void* data;
  splitq_dtype dtype;
  int32_t rank; /* 1 to SPLITQ_MAX_RANK */
  int64_t shape[SPLITQ_MAX_RANK];
  int64_t strides[SPLITQ_MAX_RANK]; /* in elements */
  splitq_device_kind device_kind;
  int32_t device_index;
} splitq_tensor;
#define SPLITQ_TENSOR_INIT \
  { sizeof(splitq_tensor), NULL, SPLITQ_FP32, 0, {0}, {0}, SPLITQ_DEVICE_CPU, 0 }

/* A row-major tensor on the CPU, its strides filled in. A rank out of range is kept, for the call that uses it to refuse. */
splitq_tensor splitq_tensor_contiguous(const void* data, splitq_dtype dtype, int32_t rank, const int64_t* shape);

typedef struct splitq_options {
  size_t struct_size;
  int32_t has_scale; /* 0: scale is 1/sqrt(D) */
  int32_t causal;
  double scale;
  int64_t window_left; /* -1: unlimited */
  int64_t window_right;
  double softcap; /* 0: off */
  double dropout; /* 0: off */
  uint64_t seed;
  uint64_t offset;
  int32_t deterministic;
  int32_t reserved; /* 0 */
  const splitq_tensor* bias;
  const splitq_tensor* mask;
  const splitq_tensor* alibi_slopes;
  const splitq_tensor* sink;
  const splitq_tensor* cu_seqlens_q;
  const splitq_tensor* cu_seqlens_k;
  const splitq_tensor* seqlens_q;
  const splitq_tensor* seqlens_k;
  const splitq_tensor* block_table;
} splitq_options;
#define SPLITQ_OPTIONS_INIT                                                                                          \
  {                                                                                                                  \
    sizeof(splitq_options), 0, 0, 0.0, -1, -1, 0.0, 0.0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL                                                                                                         \
  }

typedef struct splitq_forward_tensors {
  size_t struct_size;
  const splitq_tensor *q, *k, *v, *out;
  const splitq_tensor* softmax_lse; /* may be NULL */
} splitq_forward_tensors;
#define SPLITQ_FORWARD_TENSORS_INIT \
  { sizeof(splitq_forward_tensors), NULL, NULL, NULL, NULL, NULL }

typedef struct splitq_backward_tensors {
  size_t struct_size;
  const splitq_tensor *dout, *q, *k, *v, *out, *softmax_lse;
  const splitq_tensor *dq, *dk, *dv;         /* written */
  const splitq_tensor *dlse, *dbias, *dsink; /* may be NULL */
} splitq_backward_tensors;
#define SPLITQ_BACKWARD_TENSORS_INIT \
  { sizeof(splitq_backward_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

typedef struct splitq_execution {
  size_t struct_size;
  splitq_device_kind device_kind;
  int32_t device_index;
  int32_t threads; /* 0: all that the process may use */
  splitq_rescale rescale;
  splitq_parallel parallel;
  int32_t reserved;            /* 0 */
  const char* instruction_set; /* NULL: the best */
  int64_t num_splits;          /* 0: chosen */
  void* stream;                /* CUDA: a CUstream or cudaStream_t; NULL: the default one */
} splitq_execution;
#define SPLITQ_EXECUTION_INIT                                                                                        \
  {                                                                                                                  \
    sizeof(splitq_execution), SPLITQ_DEVICE_AUTO, 0, 0, SPLITQ_RESCALE_AT_END, SPLITQ_PARALLEL_SEQUENCE, 0, NULL, 0, \
        NULL                                                                                                         \
  }

/* What went wrong in this thread's last call; empty where nothing did. Valid until the thread's next call. */
const char* splitq_last_error(void);
const char* splitq_version(void);

/* ---- run once; options and execution may be NULL: the defaults ---- */

splitq_status splitq_forward(const splitq_forward_tensors* tensors, const splitq_options* options,
                             const splitq_execution* execution);
splitq_status splitq_backward(const splitq_backward_tensors* tensors, const splitq_options* options,
                              const splitq_execution* execution);

/* What the functions above would answer, without computing; splitq_last_error() has the reason. */
splitq_status splitq_is_supported_forward(const splitq_forward_tensors* tensors, const splitq_options* options,
                                          const splitq_execution* execution);
splitq_status splitq_is_supported_backward(const splitq_backward_tensors* tensors, const splitq_options* options,
                                           const splitq_execution* execution);

/* ---- plan once, run many times, from any thread ---- */

typedef struct splitq_plan splitq_plan;

splitq_status splitq_plan_forward(const splitq_forward_tensors* tensors, const splitq_options* options,
                                  const splitq_execution* execution, splitq_plan** plan);
splitq_status splitq_plan_backward(const splitq_backward_tensors* tensors, const splitq_options* options,
                                   const splitq_execution* execution, splitq_plan** plan);
splitq_status splitq_plan_run_forward(const splitq_plan* plan, const splitq_forward_tensors* tensors,
                                      const splitq_options* options);
splitq_status splitq_plan_run_backward(const splitq_plan* plan, const splitq_backward_tensors* tensors,
                                       const splitq_options* options);
/* The texts live as long as the plan. Of a NULL plan: empty, and 0. */
const char* splitq_plan_describe(const splitq_plan* plan);
const char* splitq_plan_backend(const splitq_plan* plan);
size_t splitq_plan_workspace_bytes(const splitq_plan* plan);
void splitq_plan_destroy(splitq_plan* plan); /* NULL is fine */

/* ---- the KV cache ---- */

typedef struct splitq_rotary {
  size_t struct_size;
  const splitq_tensor *cos, *sin;
  int32_t interleaved;
  int32_t reserved; /* 0 */
} splitq_rotary;
#define SPLITQ_ROTARY_INIT \
  { sizeof(splitq_rotary), NULL, NULL, 0, 0 }

typedef struct splitq_append_tensors {
  size_t struct_size;
  const splitq_tensor *k_new, *v_new;
  const splitq_tensor *k_cache, *v_cache; /* written */
  const splitq_tensor* seqlens_k;
  const splitq_tensor* block_table; /* may be NULL */
  const splitq_rotary* rotary;      /* may be NULL */
} splitq_append_tensors;
#define SPLITQ_APPEND_TENSORS_INIT \
  { sizeof(splitq_append_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL }

splitq_status splitq_apply_rotary(const splitq_tensor* x, const splitq_tensor* out, const splitq_rotary* rotary,
                                  const splitq_tensor* offsets);
splitq_status splitq_append_kv(const splitq_append_tensors* tensors);

/* ---- this machine ---- */

typedef struct splitq_backend_info {
  size_t struct_size;
  const char* name; /* the texts live as long as the program */
  const char* why;
  int32_t available;
  int32_t chosen;
} splitq_backend_info;
#define SPLITQ_BACKEND_INFO_INIT \
  { sizeof(splitq_backend_info), NULL, NULL, 0, 0 }

/* How many there are; 0 with a message where they can't be listed. */
size_t splitq_backend_count(void);
splitq_status splitq_backend_at(size_t index, splitq_backend_info* info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SPLITQ_SPLITQ_H */
