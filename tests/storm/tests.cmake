# What a victim runs, and who watches it, is the same whichever calls fail: those of the C library, or operator new,
# which leaves malloc to AddressSanitizer. ThreadSanitizer forks no process that has its own threads.
function(storm_test name)
  set(slow library_jpegs coefficient_records indexed_records pngs tars stages trainer)
  list(TRANSFORM slow PREPEND "*AgainAndAgain/")
  penstock_test(storm/${name} SLOW "*InAFreshProcess*" ${slow})
  target_sources(storm_${name}_test PRIVATE storm/delivered.cpp storm/places.cpp storm/rows.cpp storm/stack.cpp storm/victim.cpp)
  target_link_libraries(storm_${name}_test PRIVATE penstock_towers ZLIB::ZLIB ${CMAKE_DL_LIBS})
  set_target_properties(storm_${name}_test PROPERTIES ENABLE_EXPORTS ON)  # stacks have names then
endfunction()

if(NOT PENSTOCK_SANITIZE)
  add_library(storm_preload SHARED storm/storm.cpp storm/preload.cpp)
  target_include_directories(storm_preload PRIVATE ${PROJECT_SOURCE_DIR})
  storm_test(malloc)
  target_link_libraries(storm_malloc_test PRIVATE storm_preload)
endif()
if(NOT PENSTOCK_SANITIZE STREQUAL "thread")
  storm_test(new)
  target_sources(storm_new_test PRIVATE storm/storm.cpp)
endif()
