penstock_test(engine/engine)
target_sources(engine_engine_test PRIVATE support/numbers.cpp)
penstock_test(engine/state)
target_sources(engine_state_test PRIVATE support/numbers.cpp)
