function(penstock_conformance_test name)
  penstock_test(conformance/${name} core io sources order work engine)
  target_sources(conformance_${name}_test PRIVATE support/numbers.cpp)
  target_link_libraries(conformance_${name}_test PRIVATE TBB::tbb)
endfunction()

penstock_conformance_test(semantics_order)
penstock_conformance_test(semantics_interleave)
penstock_conformance_test(semantics_batch)
