// Shows the API's description. Requests of a person who has logged in carry the token of the page.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  validatorUrl: null,
  deepLinking: true,
  requestInterceptor: (request) => {
    request.headers["X-CSRF-Token"] = document.body.dataset.token;
    return request;
  },
});
