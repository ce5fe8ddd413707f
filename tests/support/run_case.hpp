// Runs a case through the public interface, and compares it with the oracle under the accuracy rule.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "oracle/attention.hpp"
#include "support/attention_case.hpp"
#include "support/tensor.hpp"

namespace splitq::testing {

/// The memory of one call: inputs as the case lays them out, outputs poisoned.
struct CallTensors {
  CallTensors(const AttentionCase& c, const oracle::Problem& inputs);

  Tensor q, k, v, out, softmax_lse;
  Tensor dout, dlse, dq, dk, dv, dbias, dsink;
  Tensor bias, mask, alibi_slopes, sink;
  Tensor cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k, block_table;

  Options options;  // views into this object
  ForwardTensors forward() const;
  BackwardTensors backward() const;
  std::vector<std::pair<std::string, const Tensor*>> inputs() const;
  std::vector<std::pair<std::string, const Tensor*>> outputs() const;  // backward's only where asked for
};

/// What the library computed, in the shapes of the oracle's results.
oracle::Results results_of(const CallTensors& tensors);

/// Computes a case on its tensors.
using Call = std::function<void(const AttentionCase& c, CallTensors& tensors)>;

/// forward(), and backward() where the case asks for it.
void call_library(const AttentionCase& c, CallTensors& tensors);

/// Expects that inputs and guard zones stay as they were.
oracle::Results run(const AttentionCase& c, const oracle::Problem& inputs, const Call& call = call_library);

/// All output bytes of a run, for comparisons bit for bit.
std::vector<std::byte> run_bits(const AttentionCase& c, const oracle::Problem& inputs);

/// docs/semantics.md, "Accuracy", for every result. NaN and infinity pass only where the truth has the same.
::testing::AssertionResult accurate(const AttentionCase& c, const oracle::Problem& inputs, const oracle::Results& got);

/// Draws inputs (and lets `edit` change them), runs the case, and expects the result to be accurate.
void expect_accurate(const AttentionCase& c, const std::function<void(oracle::Problem&)>& edit = {},
                     const Call& call = call_library);

/// Names that Execution::instruction_set takes on this machine.
std::vector<std::string> available_instruction_sets();

}  // namespace splitq::testing
