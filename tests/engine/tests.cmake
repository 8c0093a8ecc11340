penstock_test(engine/engine)
target_sources(engine_engine_test PRIVATE support/numbers.cpp)
