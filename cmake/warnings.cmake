# Flags for Penstock's own files; users of the library do not inherit them.
add_library(penstock_private INTERFACE)
target_compile_options(penstock_private INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -ffp-contract=off)
option(PENSTOCK_WERROR "Treat warnings as errors" ON)
if(PENSTOCK_WERROR)
  target_compile_options(penstock_private INTERFACE -Werror)
endif()
