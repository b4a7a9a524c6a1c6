# make run | test | build | bench | soak | lint | format | install (PREFIX=/usr/local)

JOBS ?= 2
PREFIX ?= /usr/local
RELEASE := build/release

.PHONY: run build test bench bench-store bench-agent bench-server bench-mail install soak lint format clean

run: build
	$(RELEASE)/rouse serve --data data

build:
	@scripts/bootstrap build
	@cmake --preset release >/dev/null
	cmake --build --preset release --target rouse

test:
	@scripts/bootstrap build test
	scripts/test

bench: bench-store bench-agent bench-server

bench-store:
	@scripts/bootstrap build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target store_bench
	cd $(RELEASE) && bench/store_bench

bench-agent:
	@scripts/bootstrap build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target agent_bench
	cd $(RELEASE) && bench/agent_bench

bench-server:
	@scripts/bootstrap build bench
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target rouse load ceiling
	cd $(RELEASE) && ../../bench/server_bench

bench-mail:
	@scripts/bootstrap build bench
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target rouse load ceiling
	cd $(RELEASE) && ../../bench/server_bench mail fanout

install:
	@scripts/bootstrap build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target install_parts
	cmake --install $(RELEASE) --prefix $(PREFIX)

soak:
	@scripts/bootstrap build test
	scripts/soak

lint:
	@scripts/bootstrap build test
	scripts/lint

format:
	@scripts/bootstrap build test
	git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

clean:
	rm -rf build
