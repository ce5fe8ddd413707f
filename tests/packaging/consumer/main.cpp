// One query, two keys with equal logits: the result is the mean of the two values.
#include <splitq/splitq.hpp>

int main() {
  using splitq::DType, splitq::view;
  const float q[] = {1, 0}, k[] = {1, 0, 1, 0}, v[] = {1, 2, 3, 6};
  float out[2] = {};
  splitq::forward(view(q, DType::kFp32, {1, 1, 1, 2}), view(k, DType::kFp32, {1, 2, 1, 2}),
                  view(v, DType::kFp32, {1, 2, 1, 2}), view(out, DType::kFp32, {1, 1, 1, 2}));
  return out[0] == 2 && out[1] == 4 ? 0 : 1;
}
