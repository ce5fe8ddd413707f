# Every target installs what it needs, on Debian, and is quick where all is there.
#   make demo      the library at work on real input, and a short speed comparison
#   make test      build and run the tests
#   make format    clang-format everything        make lint    clang-format --dry-run and clang-tidy
#   make install   PREFIX=/usr/local
CI_FLAGS := $(if $(CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)
PREFIX ?= /usr/local
SOURCES = $$(git ls-files '*.cpp' '*.hpp' '*.h' '*.c')

.PHONY: demo test format lint install clean

demo:
	@scripts/setup.sh build
	cmake --preset release $(CI_FLAGS)
	cmake --build --preset release --target splitq_cli
	examples/sentence_encoder/demo.sh build/release
	build/release/cli/splitq bench --head-dim 64 --seqlen 512,1024 --quick

test:
	@scripts/setup.sh build python
	cmake --preset dev $(CI_FLAGS)
	cmake --build --preset dev
	ctest --preset dev

format:
	@scripts/setup.sh checks
	clang-format -i $(SOURCES)

lint:
	@scripts/setup.sh build checks
	clang-format --dry-run --Werror $(SOURCES)
	cmake --preset dev
	scripts/tidy.sh build/dev

install:
	@scripts/setup.sh build
	cmake --preset release
	cmake --build --preset release
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
