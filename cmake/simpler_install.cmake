# Install rules. Laid out so that everything is found relative to something else and the tree can be moved:
#
#   <includedir>/simpler.h, simpler/*.h
#   <libdir>/libsimpler.so -> .so.0 -> .so.0.1.0
#   <libdir>/simpler/simpler-chip            found by the library beside itself
#   <libdir>/pkgconfig/simpler.pc            prefix from ${pcfiledir}
#   <libdir>/cmake/simpler/                  find_package(simpler): simpler::simpler, simpler::headers, simpler_add_callable
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/simpler)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS simpler_headers EXPORT simpler)
if(TARGET simpler)
  install(TARGETS simpler EXPORT simpler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET simpler-chip)
  install(TARGETS simpler-chip RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/simpler)
endif()

install(EXPORT simpler NAMESPACE simpler:: FILE simpler-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/simpler-config.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/simpler-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/simpler-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/cmake/simpler-config.cmake
  ${PROJECT_BINARY_DIR}/cmake/simpler-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/simpler_add_callable.cmake
  DESTINATION ${package_dir})

# The way from the folder of the .pc file up to the prefix; an absolute libdir or includedir stays absolute.
file(RELATIVE_PATH simpler_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(simpler_pc_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(simpler_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/pkgconfig/simpler.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/simpler.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/simpler.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
