#!/usr/bin/env escript
%% OTP's ssh daemon with its SFTP subsystem.
main([At]) ->
    {ok, _} = application:ensure_all_started(ssh),
    ok = filelib:ensure_dir(At ++ "/system/"),
    _ = file:make_dir(At ++ "/system"),
    {ok, _} = file:copy(At ++ "/host", At ++ "/system/ssh_host_ed25519_key"),
    {ok, Daemon} = ssh:daemon({127, 0, 0, 1}, 0,
        [{system_dir, At ++ "/system"}, {user_dir, At}, {auth_methods, "publickey"},
         {max_sessions, 100},
         {subsystems, [ssh_sftpd:subsystem_spec([{cwd, At ++ "/files"}])]}]),
    {ok, Info} = ssh:daemon_info(Daemon),
    io:format("PORT ~b~n", [proplists:get_value(port, Info)]),
    io:get_line("").
