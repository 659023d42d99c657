select coalesce((select d.file from pragma_database_list d where d.name = 'main'), '')
