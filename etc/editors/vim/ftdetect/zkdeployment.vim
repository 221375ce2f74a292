autocmd BufRead,BufNewFile *.zk,*.zkx setfiletype zkdeployment
