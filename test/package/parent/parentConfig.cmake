include(CMakeFindDependencyMacro)
find_dependency(holdfast)
include(${CMAKE_CURRENT_LIST_DIR}/parentTargets.cmake)
