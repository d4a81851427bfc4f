# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# CPack runs this file before it makes packages of the installed files. Each component has a folder. Adds the files that
# every Debian package has, compresses the manual and the changelog, removes what nothing needs of programs and
# libraries, and sets all times to that of the commit.

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(folder ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
  string(TOUPPER ${component} upper)
  set(doc ${folder}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  file(COPY ${CPACK_HOLDFAST_FILES}/copyright ${CPACK_HOLDFAST_FILES}/changelog.Debian DESTINATION ${doc}
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(GLOB pages ${folder}/usr/share/man/man*/*)
  execute_process(COMMAND gzip --best --no-name ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB libraries ${folder}/usr/lib/*/*.so.*.*.*)
  file(GLOB archives ${folder}/usr/lib/*/*.a)
  file(GLOB programs ${folder}/usr/bin/*)
  set(strip strip --remove-section=.comment --remove-section=.note --enable-deterministic-archives)
  foreach(each IN LISTS libraries programs archives)
    set(how --strip-unneeded)
    if(each MATCHES "[.]a$")
      set(how --strip-debug)
    endif()
    execute_process(COMMAND ${strip} ${how} ${each} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND find ${folder} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
