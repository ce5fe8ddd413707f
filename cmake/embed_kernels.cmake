# Writes the kernels' texts as C++: cmake -D FOLDER=kernels -D OUTPUT=FILE.cpp -P embed_kernels.cmake
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.hpp)
list(SORT files)
set(entries "")
foreach(file ${files})
  file(READ ${FOLDER}/${file} text)
  # A compiler need not take a literal of more than 64 KiB; pieces side by side are one literal to g++ and clang.
  string(APPEND entries "      {\"${file}\", R\"splitq_text(${text})splitq_text\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from kernels/ by cmake/embed_kernels.cmake.
#include \"cuda/sources.hpp\"

namespace splitq::cuda {

const std::vector<Source>& embedded_sources() {
  static const std::vector<Source> sources{
${entries}  };
  return sources;
}

}  // namespace splitq::cuda
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUTPUT}.new)
