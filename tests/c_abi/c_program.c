/* The C interface from C: two queries, two keys, causal; then the same call with a wrong shape. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "splitq/splitq.h"

static int failures = 0;

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s (last error: %s)\n", what, splitq_last_error());
  ++failures;
}

int main(void) {
  const float q_data[] = {1, 0, 0, 2}, k_data[] = {1, 1, 3, -1}, v_data[] = {1, 2, 3, 4};
  float out_data[4] = {0}, lse_data[2] = {0};
  const int64_t shape[] = {1, 2, 1, 2}, lse_shape[] = {1, 1, 2};

  splitq_tensor q = splitq_tensor_contiguous(q_data, SPLITQ_FP32, 4, shape);
  splitq_tensor k = splitq_tensor_contiguous(k_data, SPLITQ_FP32, 4, shape);
  splitq_tensor v = splitq_tensor_contiguous(v_data, SPLITQ_FP32, 4, shape);
  splitq_tensor out = splitq_tensor_contiguous(out_data, SPLITQ_FP32, 4, shape);
  splitq_tensor lse = splitq_tensor_contiguous(lse_data, SPLITQ_FP32, 3, lse_shape);

  splitq_forward_tensors t = SPLITQ_FORWARD_TENSORS_INIT;
  t.q = &q;
  t.k = &k;
  t.v = &v;
  t.out = &out;
  t.softmax_lse = &lse;
  splitq_options options = SPLITQ_OPTIONS_INIT;
  options.causal = 1;
  options.has_scale = 1;
  options.scale = 0.5;

  check(splitq_forward(&t, &options, NULL) == SPLITQ_OK, "forward");
  check(strcmp(splitq_last_error(), "") == 0, "no error text after a success");
  /* Query 0 sees key 0 alone: logit 0.5. Query 1 sees both: logits 1 and -1. */
  const double p = 1 / (1 + exp(-2.0));
  check(out_data[0] == 1 && out_data[1] == 2, "the first row is v's first row");
  check(fabs(out_data[2] - (p * 1 + (1 - p) * 3)) < 1e-6, "the second row is the weighted mean, element 0");
  check(fabs(out_data[3] - (p * 2 + (1 - p) * 4)) < 1e-6, "the second row is the weighted mean, element 1");
  check(fabs(lse_data[0] - 0.5) < 1e-6, "log-sum-exp of the first row");
  check(fabs(lse_data[1] - log(exp(1.0) + exp(-1.0))) < 1e-6, "log-sum-exp of the second row");

  k.shape[3] = 1;
  check(splitq_forward(&t, &options, NULL) == SPLITQ_INVALID_ARGUMENT, "a wrong shape is refused");
  check(strncmp(splitq_last_error(), "k: shape (1, 2, 1, 1); must be ", 31) == 0, "the message names the argument");
  return failures == 0 ? 0 : 1;
}
