package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
)

const (
	adminDefault = "127.0.0.1:9187"
	adminOff     = "off"
	// adminPatience is how long answers under way may take when the program ends.
	adminPatience = 2 * time.Second
)

// adminServer answers probes, scrapes and those who look, on one address.
type adminServer struct {
	http.Server
	log   *slog.Logger
	addr  net.Addr
	ended chan struct{}
}

// listenAdmin takes the configured address; nil if there is none. The default one may be taken, by another relay on
// this host: then there is none either, since a relay has more important things to do.
func (c *config) listenAdmin(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	if c.admin == adminOff {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.admin)
	if err == nil {
		return l, nil
	}
	if _, asked := c.given["admin.listen"]; !asked {
		log.Warn("no probes and metrics: their default address is taken; set admin.listen", "address", c.admin, "error", err)
		return nil, nil
	}
	return nil, failf(exitUsage, "admin.listen %q%s: %w", c.admin, c.origin("admin.listen"), err)
}

// serveAdmin answers on the listener until stop.
func serveAdmin(l net.Listener, mux http.Handler, log *slog.Logger) *adminServer {
	s := &adminServer{log: log, addr: l.Addr(), ended: make(chan struct{})}
	s.Server = http.Server{
		Handler: mux, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	go func() {
		defer close(s.ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("probes and metrics are not answered any longer", "error", err)
		}
	}()
	log.Info("answering probes and scrapes", "address", s.addr.String(), "paths", "/metrics /livez /readyz /statusz")
	return s
}

// stop ends the server; what is being answered may end.
func (s *adminServer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close() // whoever reads so slowly is cut off
	}
	<-s.ended
}

// adminMux are the paths.
func adminMux(relay *outbox.Relay, metrics http.Handler, about statuszAbout) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		h := relay.Health()
		answerProbe(w, h.Live, h.Problems)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := relay.Health()
		answerProbe(w, h.Ready, h.Problems)
	})
	mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, _ *http.Request) {
		text, err := encode(newStatusz(relay.Health(), about))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // whoever asked is gone
	})
	return mux
}

// answerProbe says ok, or what is wrong.
func answerProbe(w http.ResponseWriter, ok bool, problems []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if ok {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, harmless(strings.Join(problems, "\n")))
}

// setAdmin checks an address by its form; whether it can be had shows when the relay starts.
func setAdmin(c *config, text string) error {
	if text != adminOff {
		if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
			return errors.New("must be host:port, such as 127.0.0.1:9187 or :9187, or off")
		}
	}
	c.admin = text
	return nil
}
